// Package tests tests package onnxruntime of the module. The tests are not in its folder, because go mod tidy reads the
// tests of a package that replaces another one, and these would import it by a second path.
package tests
