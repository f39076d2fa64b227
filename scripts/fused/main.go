// Command fused lists the places where Go's compiler for arm64 made a fused multiply-add from x*y + z. The compiler for
// amd64 rounds the product instead, so that results would differ between the two. An explicit conversion,
// float64(x*y) + z, prevents fusion.
//
// `make fused` checks cmd/graphrun. Test programs are checked like this:
//
//	GOOS=linux GOARCH=arm64 go test -c -o kernels.test ./kernels
//	go run ./scripts/fused kernels.test
package main

import (
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

const module = "github.com/graphrun/graphrun/"

// fileOf returns the path in the module of a source file, as a program names it: below the working directory, or below
// the module if it is built with -trimpath.
func fileOf(source string) (name string, ok bool) {
	if name, ok = strings.CutPrefix(source, module); ok {
		return name, true
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(source, filepath.ToSlash(dir)+"/")
}

// exempt lists packages whose numbers are neither results nor costs of the planner.
var exempt = []string{
	"cli/internal/bench/", "cli/internal/page/", "cli/internal/view/", "internal/graphdraw/", "scripts/", "examples/",
}

func main() {
	found := map[string]bool{}
	for _, file := range os.Args[1:] {
		if err := scan(file, found); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(2)
		}
	}
	places := make([]string, 0, len(found))
	for place := range found {
		places = append(places, place)
	}
	sort.Strings(places)
	for _, place := range places {
		fmt.Println(place + ": fused multiply-add on arm64: convert the product, float64(x*y) + z")
	}
	if len(places) > 0 {
		os.Exit(1)
	}
}

// scan adds the places of fused multiply-adds in a program.
func scan(file string, found map[string]bool) error {
	program, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer program.Close()
	if program.Machine != elf.EM_AARCH64 {
		return fmt.Errorf("this is a program for %v", program.Machine)
	}
	text := program.Section(".text")
	code, err := text.Data()
	if err != nil {
		return err
	}
	lines, err := program.Section(".gopclntab").Data()
	if err != nil {
		return err
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(lines, text.Addr))
	if err != nil {
		return err
	}
	complexFuncs, err := complexInstances(program)
	if err != nil {
		return err
	}
	if !hasModule(table) {
		return errors.New("no function comes from this module: run the command from its root")
	}
	for offset := 0; offset+4 <= len(code); offset += 4 {
		if binary.LittleEndian.Uint32(code[offset:])>>24 != 0x1f { // not FMADD, FMSUB, FNMADD or FNMSUB
			continue
		}
		source, line, fn := table.PCToLine(text.Addr + uint64(offset))
		name, ok := fileOf(source)
		if fn == nil || !ok || isExempt(name) || complexFuncs[fn.Entry] {
			continue
		}
		if fused, err := lacksFMACall(name, line); err != nil {
			return err
		} else if fused {
			found[fmt.Sprintf("%s:%d", name, line)] = true
		}
	}
	return nil
}

func hasModule(table *gosym.Table) bool {
	for i := range table.Funcs {
		source, _, _ := table.PCToLine(table.Funcs[i].Entry)
		if _, ok := fileOf(source); ok {
			return true
		}
	}
	return false
}

// complexInstances returns the addresses of the instances of generic functions for complex numbers. The conversion of a
// complex product does not prevent the fusion of its parts (golang/go#36971).
func complexInstances(f *elf.File) (map[uint64]bool, error) {
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	found := map[uint64]bool{}
	for _, s := range symbols {
		if strings.Contains(s.Name, "go.shape.complex") {
			found[s.Value] = true
		}
	}
	return found, nil
}

// isExempt reports whether a source file is exempt: it is in an exempt package, or belongs to tests.
func isExempt(name string) bool {
	for _, prefix := range exempt {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "_test.go") || strings.Contains(path.Dir(name), "test")
}

// sources has the lines of each source file that was read.
var sources = map[string][]string{}

// lacksFMACall reports whether a line has no call of math.FMA, which is fused by definition.
func lacksFMACall(name string, line int) (bool, error) {
	if sources[name] == nil {
		text, err := os.ReadFile(name)
		if err != nil {
			return false, err
		}
		sources[name] = strings.Split(string(text), "\n")
	}
	return line > len(sources[name]) || !strings.Contains(sources[name][line-1], "math.FMA("), nil
}
