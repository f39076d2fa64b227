package conventions_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun/kernels"
)

var (
	span   = regexp.MustCompile("`([^`]+)`")
	goName = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)(?:\.(\w+))?$`)
	opName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
	// filePath is the path of a file in a folder, or the name of a file at the root.
	filePath = regexp.MustCompile(`^[\w.-]*(/[\w.-]+)+/?$|^\w+\.(go|md|json|py|sh)$|^Makefile$`)
)

// packageDirs maps names of packages to their folders, for packages whose folder has another path.
var packageDirs = map[string]string{"graphrun": ".", "layout": "passes/layout", "axes": "internal/axes",
	"testsize": "internal/testsize",
	"rule":     "iter/rule",
	"kit":      "kernels/internal/kit",
	"copies":   "kernels/internal/copies", "folds": "kernels/internal/folds", "kerneltest": "kernels/internal/kerneltest",
	"pointwise": "kernels/internal/pointwise", "machine": "internal/machine"}

// declared is the set of names that a package declares, as Name and Type.Member.
type declared map[string]bool

// declarations reads the declarations of a package without its tests. It returns nil if there is no such package.
func declarations(t *testing.T, name string) declared {
	t.Helper()
	dir := name
	if d, ok := packageDirs[name]; ok {
		dir = d
	}
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		return nil
	}
	names := declared{}
	embedded := map[string][]string{}
	for _, path := range files {
		if isTest(path) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			names.add(d, embedded)
		}
	}
	names.promote(embedded)
	return names
}

// promote adds the members of embedded types of the same package to the structs that embed them.
func (names declared) promote(embedded map[string][]string) {
	for outer, types := range embedded {
		for _, inner := range types {
			for _, name := range slices.Collect(maps.Keys(names)) {
				if member, ok := strings.CutPrefix(name, inner+"."); ok {
					names[outer+"."+member] = true
				}
			}
		}
	}
}

func (names declared) add(d ast.Decl, embedded map[string][]string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiverName(d.Recv.List[0].Type) + "." + name
		}
		names[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names[id.Name] = true
				}
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				names.addMembers(s, embedded)
			}
		}
	}
}

// addMembers adds the fields of a struct or the methods of an interface, and records embedded types.
func (names declared) addMembers(s *ast.TypeSpec, embedded map[string][]string) {
	var fields *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return
	}
	for _, f := range fields.List {
		if id, ok := f.Type.(*ast.Ident); ok && f.Names == nil {
			embedded[s.Name.Name] = append(embedded[s.Name.Name], id.Name)
		}
		for _, id := range f.Names {
			names[s.Name.Name+"."+id.Name] = true
		}
	}
}

// receiverName returns the name of the receiver type of a method.
func receiverName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiverName(x.X)
	case *ast.IndexExpr:
		return receiverName(x.X)
	case *ast.IndexListExpr:
		return receiverName(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// glossary checks names that documents use.
type glossary struct {
	t        *testing.T
	packages map[string]declared
}

// goNamed reports whether a text has the form of a Go name. The test fails if no package declares the name.
func (g *glossary) goNamed(where, text string) bool {
	m := goName.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	names, read := g.packages[m[1]]
	if !read {
		names = declarations(g.t, m[1])
		g.packages[m[1]] = names
	}
	name := m[2]
	if m[3] != "" {
		name += "." + m[3]
	}
	if names == nil || !names[name] {
		g.t.Errorf("%s: there is no %s", where, text)
	}
	return true
}

// isFile reports whether a text has the form of a path. The test fails if the file does not exist.
func (g *glossary) isFile(where, text string) bool {
	if !filePath.MatchString(text) {
		return false
	}
	if _, err := os.Stat(filepath.Join(root, text)); err != nil {
		g.t.Errorf("%s: there is no %s", where, text)
	}
	return true
}

// TestPyTorchMap checks the names in docs/pytorch.md. Each name in the second column of its tables is a Go name, an op,
// a path, or a command.
func TestPyTorchMap(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/pytorch.md"))
	if err != nil {
		t.Fatal(err)
	}
	g := &glossary{t, map[string]declared{}}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[2]) == "here" {
			continue
		}
		rows++
		spans := span.FindAllStringSubmatch(cells[2], -1)
		if len(spans) == 0 {
			t.Errorf("%q: the second column has no name", cells[1])
		}
		for _, s := range spans {
			switch name := s[1]; {
			case g.goNamed(cells[1], name) || g.isFile(cells[1], name) || isCommand(t, name):
			case !opName.MatchString(name) || kernels.Lookup(name) == nil:
				t.Errorf("%s: %q is no Go name, op, path or command", cells[1], name)
			}
		}
		for _, s := range span.FindAllStringSubmatch(cells[3], -1) {
			_ = g.goNamed(cells[1], s[1]) || g.isFile(cells[1], s[1])
		}
	}
	if rows < 80 {
		t.Errorf("only %d rows were found", rows)
	}
}

// isCommand reports whether a text is a command of graphrun.
func isCommand(t *testing.T, text string) bool {
	name, ok := strings.CutPrefix(text, "graphrun ")
	if !ok {
		return false
	}
	name, _, _ = strings.Cut(name, " ")
	uses := regexp.MustCompile(`Use:\s+"` + regexp.QuoteMeta(name) + `\b`)
	var found bool
	for _, pattern := range []string{"cli/*.go", "cli/internal/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || uses.Match(source)
		}
	}
	return found
}

// TestContributing checks that the Go names and paths in CONTRIBUTING.md exist.
func TestContributing(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	g, checked := &glossary{t, map[string]declared{}}, 0
	for _, s := range span.FindAllStringSubmatch(string(text), -1) {
		if g.goNamed("CONTRIBUTING.md", s[1]) || g.isFile("CONTRIBUTING.md", s[1]) {
			checked++
		}
	}
	if checked < 40 {
		t.Errorf("only %d names were checked", checked)
	}
}
