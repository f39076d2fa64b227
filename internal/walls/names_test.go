package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/kernels"
)

// shared are names of ops that are words of the passes as well: a strategy is named after the memory format.
var shared = map[string]bool{"contiguous": true}

// TestNoOpByName: passes and the executor ask an op's contract, never its name. No literal there is an
// op's name, and nobody compares Op.Name with anything.
func TestNoOpByName(t *testing.T) {
	literals := 0
	for _, dir := range []string{"../../passes", "../../exec"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if _, imports := n.(*ast.ImportSpec); imports {
					return false
				}
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					literals++
					if s, err := strconv.Unquote(l.Value); err == nil && kernels.Lookup(s) != nil && !shared[s] {
						t.Errorf("%s: %s is an op's name", fset.Position(l.Pos()), l.Value)
					}
				}
				if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) && (namesOp(b.X) || namesOp(b.Y)) {
					t.Errorf("%s: an op's name is compared", fset.Position(b.Pos()))
				}
				if s, ok := n.(*ast.SwitchStmt); ok && s.Tag != nil && namesOp(s.Tag) {
					t.Errorf("%s: an op's name is told apart", fset.Position(s.Pos()))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if literals < 20 {
		t.Errorf("%d literals were looked at", literals)
	}
}

// namesOp reports whether an expression is Op.Name, of whatever op.
func namesOp(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Name" {
		return false
	}
	op, ok := s.X.(*ast.SelectorExpr)
	return ok && op.Sel.Name == "Op"
}
