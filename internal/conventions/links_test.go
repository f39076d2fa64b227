package conventions_test

import (
	"go/ast"
	"go/parser"
	"go/token"
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
	names := map[string]map[string]bool{}
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
		if names[dir] == nil {
			names[dir] = map[string]bool{}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[dir][id.Name] = true
			}
			return true
		})
		if !isTest(path) {
			files[dir] = append(files[dir], file)
		}
		return nil
	})
	links := 0
	for dir, sources := range files {
		for _, file := range sources {
			imported := importNames(file)
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
					for _, part := range parts {
						if !names[target][part] {
							t.Errorf("%s: [%s]: the folder %q has no %s", fset.Position(group.Pos()), match[1], target, part)
						}
					}
				}
			}
		}
	}
	if links < 1000 {
		t.Errorf("only %d links were found", links)
	}
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
