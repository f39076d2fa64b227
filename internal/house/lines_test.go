package house_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// width is how many characters a line may have; a tab counts as one.
const width = 120

// TestLines holds the lines of Go files written by hand to a width. Longer are only those that cannot be broken without
// changing what they say: raw strings (tables of tests, tags of structs), what an example must print, directives, and
// comments of a single word (addresses).
func TestLines(t *testing.T) {
	lines := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || generated.Match(text) {
			return err
		}
		free := unbreakable(text)
		for i, line := range strings.Split(string(text), "\n") {
			lines++
			if n := utf8.RuneCountInString(line); n > width && !free[i+1] {
				t.Errorf("%s:%d: the line has %d characters, the limit is %d", path, i+1, n, width)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if lines < 50000 {
		t.Errorf("only %d lines were looked at", lines)
	}
}

// unbreakable returns the lines, counted from 1, that may be of any width.
func unbreakable(text []byte) map[int]bool {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	free, printed := map[int]bool{}, -1 // printed is the line of the last comment that an example must print
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return free
		}
		at := file.Line(pos)
		switch {
		case tok == token.STRING && lit[0] == '`':
			for i := range strings.Count(lit, "\n") + 1 {
				free[at+i] = true
			}
		case tok == token.COMMENT:
			words := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(lit, "//")))
			if strings.HasPrefix(words, "output:") || strings.HasPrefix(words, "unordered output:") || printed == at-1 {
				printed = at
			}
			if printed == at || strings.HasPrefix(lit, "//go:") || !strings.Contains(words, " ") {
				free[at] = true
			}
		}
	}
}
