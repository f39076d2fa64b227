package conventions_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/graphrun/graphrun/internal/sorted"
)

// maxTypes bounds the numbers of exported types of packages. A new type needs a reason: often a type exists that
// describes the same thing, such as a document of package report.
var maxTypes = map[string]int{
	"exec":              16,
	"experiment":        28,
	"graph":             99,
	"graph/batch":       1,
	"inspect":           17,
	"internal/batching": 2,
	"internal/program":  8,
	"passes":            10,
	"passes/layout":     26,
	"report":            29,
}

// TestTypes counts the exported types of packages and compares them with [maxTypes].
func TestTypes(t *testing.T) {
	for _, folder := range sorted.Keys(maxTypes) {
		paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, path := range paths {
			if isTest(path) {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
					count++
				}
				_, isFunction := n.(*ast.FuncDecl) // types within functions do not count
				return !isFunction
			})
		}
		if count > maxTypes[folder] || count == 0 {
			t.Errorf("package %s has %d exported types, more than %d", folder, count, maxTypes[folder])
		}
	}
}
