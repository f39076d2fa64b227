// Command platforms type-checks the module and its dependencies, including tests, for the given platforms, from source
// and without generating code. The arguments are platforms such as linux/arm64.
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
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
)

// maxErrors is the maximum number of printed errors for each platform.
const maxErrors = 20

// listed is a package as printed by go list -json.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		Main      bool
		GoVersion string
	}
}

func main() {
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	errs := make([]error, len(os.Args)-1)
	for i, platform := range os.Args[1:] {
		g.Go(func() error {
			n, err := check(platform)
			if err != nil {
				errs[i] = fmt.Errorf("%s:\n%w", platform, err)
				return nil
			}
			fmt.Printf("%s: %d packages\n", platform, n)
			return nil
		})
	}
	_ = g.Wait()
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check type-checks the module for a platform and returns the number of its packages. For wasip1 it checks only the
// library, because the progress bars of package cli do not build there. On 32-bit platforms it skips tests, whose
// constants overflow int.
func check(platform string) (int, error) {
	system, arch, ok := strings.Cut(platform, "/")
	sizes := types.SizesFor("gc", arch)
	if !ok || sizes == nil {
		return 0, errors.New("not a platform")
	}
	env := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	list := []string{"./..."}
	if sizes.Sizeof(types.Typ[types.Int]) == 8 && system != "wasip1" {
		list = []string{"-test", "./..."}
	}
	if system == "wasip1" {
		all, err := output(env, "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
		if err != nil {
			return 0, err
		}
		list = nil
		for line := range strings.Lines(string(all)) {
			if p, _, _ := strings.Cut(line, " "); !strings.Contains(line, "/graphrun/cli") && !strings.Contains(p, "/scripts/") {
				list = append(list, p)
			}
		}
	}
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,ImportMap,Module"}
	out, err := output(env, append(args, list...)...)
	if err != nil {
		return 0, err
	}
	c := &checker{sizes: sizes, fset: token.NewFileSet(), packages: map[string]*types.Package{"unsafe": types.Unsafe}}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return c.checked, errors.Join(c.errs...)
		} else if err != nil {
			return 0, err
		}
		if err := c.add(&p); err != nil {
			return 0, err
		}
	}
}

func output(env []string, args ...string) ([]byte, error) {
	c := exec.Command("go", args...)
	c.Env, c.Stderr = env, os.Stderr
	return c.Output()
}

// checker type-checks packages in the order of go list -deps, which lists imported packages first.
type checker struct {
	sizes    types.Sizes
	fset     *token.FileSet
	packages map[string]*types.Package
	checked  int // packages of the main module
	errs     []error
}

// imports resolves the import paths of one package.
type imports struct {
	of       map[string]string
	packages map[string]*types.Package
}

func (i imports) Import(path string) (*types.Package, error) {
	if p, ok := i.of[path]; ok {
		path = p
	}
	if p := i.packages[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %s is not listed", path)
}

func (c *checker) add(p *listed) error {
	if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // the latter is generated
		return nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		f, err := parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	conf := types.Config{Sizes: c.sizes, Importer: imports{p.ImportMap, c.packages}, IgnoreFuncBodies: p.Standard,
		Error: func(err error) {
			if !p.Standard && len(c.errs) < maxErrors {
				c.errs = append(c.errs, err)
			}
		}}
	if p.Module != nil {
		if p.Module.GoVersion != "" {
			conf.GoVersion = "go" + p.Module.GoVersion
		}
		if p.Module.Main {
			c.checked++
		}
	}
	path, _, _ := strings.Cut(p.ImportPath, " ")
	c.packages[p.ImportPath], _ = conf.Check(path, c.fset, files, nil)
	return nil
}
