package conventions_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docLink matches [Name], [Type.Member] and [package.Name] in a comment. A name of one letter is the size of a shape.
var docLink = regexp.MustCompile(`(?:^|[\s(])\[\*?((?:[a-z]\w*\.)?[A-Z]\w+(?:\.\w+)?)\](?:[\s.,;:)']|$)`)

// TestDocLinks checks that the links of comments name identifiers of their packages.
func TestDocLinks(t *testing.T) {
	fset := token.NewFileSet()
	files := map[string][]*ast.File{}
	declared := map[string]map[string]*members{} // by folder and name
	walkGo(t, "", func(path string) error {
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if dir = filepath.ToSlash(dir); dir == "." {
			dir = rootPackage
		}
		if declared[dir] == nil {
			declared[dir] = map[string]*members{}
		}
		for _, d := range file.Decls {
			declare(declared[dir], d)
		}
		if !isTest(path) {
			files[dir] = append(files[dir], file)
		}
		return nil
	})
	links := 0
	for dir, sources := range files {
		imported := map[string]string{}
		for _, file := range sources {
			maps.Copy(imported, importNames(file))
		}
		for _, file := range sources {
			for _, group := range file.Comments {
				for _, match := range docLink.FindAllStringSubmatch(group.Text(), -1) {
					links++
					target, parts := dir, strings.Split(match[1], ".")
					if path, ok := imported[parts[0]]; ok {
						if target, ok = relative(path); !ok {
							continue
						}
						parts = parts[1:]
					}
					if !resolves(declared[target], parts) {
						t.Errorf("%s: [%s]: the folder %q does not declare it", fset.Position(group.Pos()), match[1], target)
					}
				}
			}
		}
	}
	if links < 1000 {
		t.Errorf("only %d links were found", links)
	}
}

// members has the fields and methods of a type by name, and the types that it embeds. It is empty for other names.
type members struct {
	has      map[string]bool
	embedded []string
	foreign  bool // embeds a type of another package, whose members are not checked
}

// declare adds the names that a declaration of a package declares.
func declare(names map[string]*members, d ast.Decl) {
	of := func(name string) *members {
		if names[name] == nil {
			names[name] = &members{has: map[string]bool{}}
		}
		return names[name]
	}
	if f, ok := d.(*ast.FuncDecl); ok {
		if f.Recv == nil {
			of(f.Name.Name)
		} else {
			of(typeName(f.Recv.List[0].Type)).has[f.Name.Name] = true
		}
		return
	}
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, id := range spec.Names {
				of(id.Name)
			}
		case *ast.TypeSpec:
			of(spec.Name.Name).add(spec.Type)
		}
	}
}

// add adds the members of a type expression.
func (m *members) add(expression ast.Expr) {
	var list *ast.FieldList
	switch x := expression.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	case *ast.Ident, *ast.StarExpr, *ast.IndexExpr, *ast.SelectorExpr: // an alias, or a type with the same fields
		list = &ast.FieldList{List: []*ast.Field{{Type: x}}}
	default:
		return
	}
	for _, field := range list.List {
		for _, id := range field.Names {
			m.has[id.Name] = true
		}
		if len(field.Names) > 0 {
			continue
		}
		if name := typeName(field.Type); name != "" {
			m.has[name], m.embedded = true, append(m.embedded, name)
		} else {
			m.foreign = true
		}
	}
}

// typeName returns the name of a type of the same package, without its pointer and its type arguments; "" for others.
func typeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.IndexListExpr:
		return typeName(x.X)
	}
	return ""
}

// resolves reports whether a package declares a name, or a type with a member, also through embedded types.
func resolves(names map[string]*members, parts []string) bool {
	m := names[parts[0]]
	if m == nil || len(parts) == 1 || m.foreign || m.has[parts[1]] {
		return m != nil
	}
	for _, embedded := range m.embedded {
		if resolves(names, []string{embedded, parts[1]}) {
			return true
		}
	}
	return false
}

// importNames maps the names by which a file refers to its imports to their paths.
func importNames(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	return names
}
