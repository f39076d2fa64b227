// Package onnxpb holds the Go bindings of ONNX's protocol-buffer messages. onnx.pb.go is
// generated from onnx.proto by protoc and protoc-gen-go v1.36.12.
package onnxpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go_opt=Monnx.proto=github.com/graphrun/graphrun/internal/onnxpb onnx.proto
