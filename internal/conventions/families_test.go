package conventions_test

import (
	"bytes"
	"fmt"
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

// maxShare limits the handwritten lines of one package, tests excluded, in percent of all packages.
const maxShare = 15

// TestShares checks that no package is so large that it should be split.
func TestShares(t *testing.T) {
	lines, all := map[string]int{}, 0
	walkGo(t, "", func(path string) error {
		if isTest(path) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || generated.Match(text) {
			return err
		}
		n := bytes.Count(text, []byte("\n"))
		lines[filepath.Dir(path)] += n
		all += n
		return nil
	})
	if len(lines) < 20 {
		t.Fatalf("only %d packages were counted", len(lines))
	}
	for dir, n := range lines {
		if n*100 > all*maxShare {
			t.Errorf("%s has %d of %d lines, more than %d percent: split the package", dir, n, all, maxShare)
		}
	}
}

// family is a type-checked package under kernels.
type family struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
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
		f := &family{fset: fset, info: &types.Info{Uses: map[*ast.Ident]types.Object{}}}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			f.files = append(f.files, file)
		}
		checked, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, fset, f.files, f.info)
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

// file returns the name of the file with an object or identifier.
func (f *family) file(n interface{ Pos() token.Pos }) string {
	return filepath.Base(f.fset.Position(n.Pos()).Filename)
}

// ops returns the ops that a package defines and their files.
func (f *family) ops() map[string]string {
	found := map[string]string{}
	for _, name := range f.scope.Names() {
		if o := f.scope.Lookup(name); isOp(o) {
			found[name] = f.file(o)
		}
	}
	return found
}

// borrowed lists the uses of helpers that are defined in the file of an op and used in another file. A helper of
// several ops belongs in a file named after its subject.
func (f *family) borrowed() []string {
	var found []string
	opFiles := map[string]bool{}
	for _, file := range f.ops() {
		opFiles[file] = true
	}
	for id, o := range f.info.Uses {
		if o.Parent() == f.scope && !isOp(o) && opFiles[f.file(o)] && f.file(o) != f.file(id) {
			found = append(found, fmt.Sprintf("%s: %s is defined in %s, a file of ops", f.fset.Position(id.Pos()), o.Name(),
				f.file(o)))
		}
	}
	slices.Sort(found)
	return found
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
	for name := range f.ops() {
		if !listed[name] {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	return left
}

// TestFamilies checks that the list of a family contains all its ops, and that no file uses a helper from the file of
// an op.
func TestFamilies(t *testing.T) {
	ops := 0
	for name, f := range families(t) {
		ops += len(f.ops())
		for _, why := range f.borrowed() {
			t.Error(why)
		}
		for _, op := range f.unlisted() {
			t.Errorf("%s: the list of ops does not contain %s", name, op)
		}
	}
	if ops < 300 {
		t.Errorf("only %d ops were found", ops)
	}
}
