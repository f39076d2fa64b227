// Package apifuzz holds the test that calls every exported function and method of the
// public packages with arguments that make sense and arguments that do not: nil, empty,
// negative, huge, mismatched, aliased. Each call must give a result, an error, or a panic
// that is documented, whose message begins with the name of the package. What the Go
// runtime panics with, a hang, and memory taken without bound are faults.
//
// go generate lists the functions and the types with methods; list_test.go has instances of generic ones. A test checks
// that no function is missing. Methods are found by reflection.
package apifuzz

//go:generate go run ./genlists list_gen_test.go . report inspect experiment sym internal/contiguity tensor expr expr/expand expr/interp iter iter/rule internal/axes graph fusion graphfile kernels passes passes/layout passes/layout/wcsp passes/layout/wcsp/verify exec npz safetensors onnx
