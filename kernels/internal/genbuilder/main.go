// Genbuilder generates the functions of package op, one function for each op of the catalogue. The parameters of a
// function are the operands and attributes of the op. Genbuilder also generates two lists: the functions, for the tests
// of package op, and the names of the ops, for the spelling suggestions of package suggest. Run it by "go generate
// ./op" after an op was added or changed.
//
// Genbuilder compiles and runs even if its output files were deleted, because no package under kernels uses the
// generated functions.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("genbuilder: ")
	files := []struct {
		path  *string
		write func(ops []*graph.Op, declared map[string]bool) ([]byte, error)
	}{
		{flag.String("functions", "ops_gen.go", "the functions, in the folder of package op"), functionsFile},
		{flag.String("list", "list_gen_test.go", "the list of functions, in the same folder"), testListFile},
		{flag.String("names", "../internal/suggest/opnames_gen.go", "the names, in the folder of package suggest"),
			opNamesFile},
	}
	check := flag.Bool("check", false, "write nothing; fail if a file is not up to date")
	flag.Parse()
	declared, err := handDeclared(filepath.Dir(*files[0].path))
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range files {
		text, err := f.write(kernels.All(), declared)
		if err != nil {
			log.Fatal(err)
		}
		if *check {
			if have, err := os.ReadFile(*f.path); err != nil || !bytes.Equal(have, text) {
				log.Fatalf("%s is not up to date: run go generate ./op", *f.path)
			}
		} else if err := os.WriteFile(*f.path, text, 0o644); err != nil {
			log.Fatal(fmt.Errorf("writing: %w", err))
		}
	}
}
