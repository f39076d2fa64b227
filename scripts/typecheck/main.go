// Command typecheck type-checks the packages of the module in the current directory, with their tests, for other
// platforms than this one. Nothing is compiled, so a platform takes seconds. Errors in assembly and of linking are not
// found.
//
//	go run ./scripts/typecheck freebsd/amd64 linux/amd64,noasm
//
// Tags follow the platform.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goPackage is a package as go list describes it.
type goPackage struct {
	ImportPath, Dir, ForTest string
	GoFiles                  []string
	ImportMap                map[string]string
	Module                   *struct{ Main bool }
}

func main() {
	failed := false
	files := map[string]*ast.File{}
	for _, platform := range os.Args[1:] {
		fmt.Println("type-check", platform)
		if err := check(platform, files); err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// positions has the positions of all parsed files.
var positions = token.NewFileSet()

// check type-checks all packages for a platform. The files of earlier platforms are not parsed again.
func check(platform string, files map[string]*ast.File) error {
	target, tags, _ := strings.Cut(platform, ",")
	system, processor, _ := strings.Cut(target, "/")
	sizes := types.SizesFor("gc", processor)
	if sizes == nil {
		return fmt.Errorf("%s: unknown processor", platform)
	}
	// -deps lists each package after the packages that it imports.
	list := exec.Command("go", "list", "-deps", "-test", "-tags="+tags,
		"-json=ImportPath,Dir,ForTest,GoFiles,ImportMap,Module", "./...")
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return err
	}
	if err := list.Start(); err != nil {
		return err
	}
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	var errs []error
	for decoder := json.NewDecoder(out); ; {
		var listed goPackage
		err := decoder.Decode(&listed)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if listed.ImportPath == "unsafe" || strings.HasSuffix(listed.ImportPath, ".test") {
			continue
		}
		errs = append(errs, listed.check(sizes, checked, files)...)
	}
	return errors.Join(append(errs, list.Wait())...)
}

// check type-checks a package, after the packages that it imports. Functions of other modules are not checked.
func (p *goPackage) check(sizes types.Sizes, checked map[string]*types.Package, files map[string]*ast.File) []error {
	parsed, errs := p.parse(files)
	path, _, _ := strings.Cut(p.ImportPath, " ")
	// With -test, go list repeats some packages: a package that imports the package P and is imported by a test of P is
	// compiled again for this test. ForTest is then P. The functions of such a package have been checked before.
	isTestVariant := p.ForTest != "" && path != p.ForTest && path != p.ForTest+"_test"
	config := types.Config{
		Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if checked[path] == nil {
				return nil, fmt.Errorf("package %s was not listed", path)
			}
			return checked[path], nil
		}),
		Sizes:            sizes,
		IgnoreFuncBodies: p.Module == nil || !p.Module.Main || isTestVariant,
		Error:            func(err error) { errs = append(errs, err) },
	}
	pkg, err := config.Check(path, positions, parsed, nil)
	if err != nil && len(errs) == 0 {
		errs = append(errs, err)
	}
	checked[p.ImportPath] = pkg
	return errs
}

// parse returns the syntax of the package's files. It parses the files that are not in files, and adds them.
func (p *goPackage) parse(files map[string]*ast.File) (parsed []*ast.File, errs []error) {
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		if files[path] == nil {
			f, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			files[path] = f
		}
		parsed = append(parsed, files[path])
	}
	return parsed, errs
}

// importer is a function that returns imported packages.
type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
