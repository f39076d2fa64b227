// Package onnxpb holds the Go bindings of ONNX's protocol-buffer messages. onnx.pb.go is generated from onnx.proto by
// the program in _gen, a module of its own: it needs Go alone, and its dependencies are not dependencies of the
// project.
package onnxpb

//go:generate go run -C _gen .
