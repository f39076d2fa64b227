// Package tests tests the package of the module. The tests are not in the folder of the package, because go mod tidy
// reads the tests of a package that replaces another one, and these would import it by a second path.
package tests
