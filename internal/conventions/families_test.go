package conventions_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// family is a type-checked package under kernels.
type family struct {
	files []*ast.File
	scope *types.Scope
}

// families type-checks the packages under kernels, each with the compiled form of its imports.
func families(t *testing.T) map[string]*family {
	t.Helper()
	var own []listed
	exports := map[string]string{}
	for _, p := range goList(t, "-export", "./kernels/...") {
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module+"/kernels") {
			own = append(own, p)
		}
	}
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	found := map[string]*family{}
	for _, p := range own {
		f := &family{}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			f.files = append(f.files, file)
		}
		checked, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, fset, f.files, nil)
		if err != nil {
			t.Fatal(err)
		}
		f.scope = checked.Scope()
		found[strings.TrimPrefix(p.ImportPath, module+"/")] = f
	}
	return found
}

// isOp reports whether an object is a variable that holds an op.
func isOp(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && v.Type().String() == "*"+module+"/graph.Op"
}

// ops returns the names of the ops that a package defines.
func (f *family) ops() []string {
	return slices.DeleteFunc(f.scope.Names(), func(name string) bool { return !isOp(f.scope.Lookup(name)) })
}

// unlisted returns the ops that are missing in the function Ops of their package. In a package without this function,
// ops are parts of the ops of other packages.
func (f *family) unlisted() []string {
	if f.scope.Lookup("Ops") == nil {
		return nil
	}
	listed := map[string]bool{}
	for _, file := range f.files {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "Ops" {
				ast.Inspect(fn, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						listed[id.Name] = true
					}
					return true
				})
			}
		}
	}
	var left []string
	for _, name := range f.ops() {
		if ast.IsExported(name) && !listed[name] { // an op that is not exported is a part of others
			left = append(left, name)
		}
	}
	return left
}

// TestFamilies checks that the list of a family contains all its ops.
func TestFamilies(t *testing.T) {
	ops := 0
	for name, f := range families(t) {
		ops += len(f.ops())
		for _, op := range f.unlisted() {
			t.Errorf("%s: the list of ops does not contain %s", name, op)
		}
	}
	if ops < 300 {
		t.Errorf("only %d ops were found", ops)
	}
}
