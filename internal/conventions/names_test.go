package conventions_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/graphrun/graphrun/kernels"
)

// sharedWords are names of ops that are also words of the passes: a strategy is named after the memory format.
var sharedWords = map[string]bool{"contiguous": true}

// TestNoOpByName checks that passes and the executor depend on the contract of an op and never on its name: their code
// has no literal that is the name of an op, and no comparison of Op.Name.
func TestNoOpByName(t *testing.T) {
	literals := 0
	for _, folder := range []string{"passes", "exec"} {
		walkGo(t, folder, func(path string) error {
			if isTest(path) {
				return nil
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ImportSpec:
					return false
				case *ast.BasicLit:
					if n.Kind == token.STRING {
						literals++
						if s, err := strconv.Unquote(n.Value); err == nil && kernels.Lookup(s) != nil && !sharedWords[s] {
							t.Errorf("%s: %s is the name of an op", fset.Position(n.Pos()), n.Value)
						}
					}
				case *ast.BinaryExpr:
					if (n.Op == token.EQL || n.Op == token.NEQ) && (isOpName(n.X) || isOpName(n.Y)) {
						t.Errorf("%s: the code compares the name of an op", fset.Position(n.Pos()))
					}
				case *ast.SwitchStmt:
					if n.Tag != nil && isOpName(n.Tag) {
						t.Errorf("%s: the code switches on the name of an op", fset.Position(n.Pos()))
					}
				}
				return true
			})
			return nil
		})
	}
	if literals < 20 {
		t.Errorf("only %d literals were checked", literals)
	}
}

// isOpName reports whether an expression selects Op.Name.
func isOpName(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Name" {
		return false
	}
	op, ok := s.X.(*ast.SelectorExpr)
	return ok && op.Sel.Name == "Op"
}
