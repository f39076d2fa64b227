// Package apifuzz holds the test that calls every exported function and method of the
// public packages with arguments that make sense and arguments that do not: nil, empty,
// negative, huge, mismatched, aliased. Each call must give a result, an error, or a panic
// that is documented, whose message begins with the name of the package. What the Go
// runtime panics with, a hang, and memory taken without bound are faults.
//
// list_test.go names the functions, one line each; a test over the packages' syntax sees to
// it that none is forgotten. Methods are found by reflection. It has no code of its own.
package apifuzz
