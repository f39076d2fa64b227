package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/graphrun/graphrun"
	// share is the part of the lines written by hand that one package may hold, in percent.
	share = 15
)

// TestShares counts the lines written by hand, tests aside, by package.
func TestShares(t *testing.T) {
	lines, all := map[string]int{}, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
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
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 20 {
		t.Fatalf("only %d packages were counted", len(lines))
	}
	for dir, n := range lines {
		if n*100 > all*share {
			t.Errorf("%s has %d of %d lines, more than %d in a hundred: it is several packages", dir, n, all, share)
		}
	}
}

// room is a package under kernels as the compiler sees it.
type room struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
	scope *types.Scope
}

// listed is what go list tells of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// rooms type-checks the packages under kernels, each against the compiled form of what it imports.
func rooms(t *testing.T) map[string]*room {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./kernels/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var own []listed
	exports := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, module+"/kernels") {
			own = append(own, p)
		}
	}
	fset := token.NewFileSet()
	compiled := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	found := map[string]*room{}
	for _, p := range own {
		r := &room{fset: fset, info: &types.Info{Uses: map[*ast.Ident]types.Object{}}}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			r.files = append(r.files, f)
		}
		checked, err := (&types.Config{Importer: compiled}).Check(p.ImportPath, fset, r.files, r.info)
		if err != nil {
			t.Fatal(err)
		}
		r.scope = checked.Scope()
		found[strings.TrimPrefix(p.ImportPath, module+"/")] = r
	}
	return found
}

// isOp reports whether an object is a variable that holds an op.
func isOp(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && v.Type().String() == "*"+module+"/graph.Op"
}

// file returns the name of the file where an object or identifier stands.
func (r *room) file(n interface{ Pos() token.Pos }) string {
	return filepath.Base(r.fset.Position(n.Pos()).Filename)
}

// ops returns the ops that a package defines, with their files.
func (r *room) ops() map[string]string {
	found := map[string]string{}
	for _, name := range r.scope.Names() {
		if o := r.scope.Lookup(name); isOp(o) {
			found[name] = r.file(o)
		}
	}
	return found
}

// borrowed lists what a file takes from a file that defines ops, other than ops: a helper of several ops is in a
// file of its own subject.
func (r *room) borrowed() []string {
	var found []string
	opFiles := map[string]bool{}
	for _, file := range r.ops() {
		opFiles[file] = true
	}
	for id, o := range r.info.Uses {
		if o.Parent() == r.scope && !isOp(o) && opFiles[r.file(o)] && r.file(o) != r.file(id) {
			found = append(found, r.fset.Position(id.Pos()).String()+": "+o.Name()+" stands in "+r.file(o)+", with ops")
		}
	}
	slices.Sort(found)
	return found
}

// unlisted returns the ops that the function Ops of their package does not name. In a package without that function,
// ops are parts of other packages' ops.
func (r *room) unlisted() []string {
	if r.scope.Lookup("Ops") == nil {
		return nil
	}
	listed := map[string]bool{}
	for _, f := range r.files {
		for _, d := range f.Decls {
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
	for name := range r.ops() {
		if !listed[name] {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	return left
}

// TestRooms holds the packages under kernels to their order: an op is in its family's list, and no file needs a
// helper from the file of an op.
func TestRooms(t *testing.T) {
	ops := 0
	for name, r := range rooms(t) {
		ops += len(r.ops())
		for _, why := range r.borrowed() {
			t.Error(why)
		}
		for _, op := range r.unlisted() {
			t.Errorf("%s: the list of ops leaves out %s", name, op)
		}
	}
	if ops < 300 {
		t.Errorf("only %d ops were found", ops)
	}
}
