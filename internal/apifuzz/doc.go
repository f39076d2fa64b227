// Package apifuzz has the test that calls every exported function and method of the public packages, and of the
// packages internal/contiguity and internal/axes, with valid and invalid arguments. Invalid arguments are nil, empty,
// negative, huge, mismatched or aliased. Each call must return a result or an error, or panic as documented. The
// message of such a panic begins with the name of the package. Panics of the Go runtime, hangs, and unbounded
// allocation are failures.
//
// go generate lists the functions, and the types that have methods. list_test.go has instances of the generic functions
// and types. A test checks that no function is missing. Methods are found by reflection.
package apifuzz

//go:generate go run ./genlists list_gen_test.go . report inspect experiment sym internal/contiguity tensor expr expr/expand expr/interp iter iter/rule internal/axes graph graph/dot graph/indices fusion graphfile kernels passes passes/layout passes/layout/wcsp passes/layout/wcsp/verify exec npz safetensors onnx
