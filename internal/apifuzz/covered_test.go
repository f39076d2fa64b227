package apifuzz

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// exported returns the exported functions of a package, as pkg.Name, and the exported methods of its exported types, as
// (pkg.Type).Method.
func exported(t *testing.T, dir string) (funcs, methods []string) {
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	pkg, fset := path.Base(dir), token.NewFileSet()
	if dir == "." {
		pkg = "graphrun"
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			if f.Recv == nil {
				funcs = append(funcs, pkg+"."+f.Name.Name)
			} else if r := receiver(f.Recv.List[0].Type); ast.IsExported(r) {
				methods = append(methods, "("+pkg+"."+r+")."+f.Name.Name)
			}
		}
	}
	return funcs, methods
}

// receiver returns the name of the receiver's type.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// TestNothingIsForgotten compares the lists with the exported functions and methods.
func TestNothingIsForgotten(t *testing.T) {
	listed := map[string]bool{}
	for name := range functions {
		name, _, _ = strings.Cut(name, "/")
		listed[name] = true
	}
	for _, r := range receivers {
		for i := range r.NumMethod() {
			listed[methodName(r, r.Method(i).Name)] = true
		}
	}
	there := map[string]bool{}
	for _, dir := range packages {
		funcs, methods := exported(t, dir)
		for _, name := range slices.Concat(funcs, methods) {
			there[name] = true
			if !listed[name] {
				t.Errorf("%s is exported and not listed: run go generate ./internal/apifuzz; instances "+
					"of generic functions are in list_test.go", name)
			}
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(functions)), slices.Collect(maps.Keys(vouched))) {
		if name, _, _ = strings.Cut(name, "/"); !there[name] {
			t.Errorf("%s is listed and not exported", name)
		}
	}
	for name, f := range functions {
		if reflect.TypeOf(f).Kind() != reflect.Func {
			t.Errorf("%s is no function", name)
		}
	}
}
