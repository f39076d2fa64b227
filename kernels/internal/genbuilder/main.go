// Genbuilder writes the methods of graph.Graph that are named after ops: one for each op
// of the catalogue, with its operands as parameters. Run it by "go generate ./graph", after
// an op was added or changed.
//
// The methods call nothing but what builder.go has, and no package under kernels calls
// them: so the file can always be made anew, also after it was deleted.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/graphrun/graphrun/kernels"
)

func main() {
	log.SetFlags(0)
	out := flag.String("o", "ops_gen.go", "file to write, in the folder of package graph")
	check := flag.Bool("check", false, "write nothing; fail if the file is not up to date")
	flag.Parse()
	taken, err := methods(filepath.Dir(*out), filepath.Base(*out))
	if err != nil {
		log.Fatal("genbuilder: ", err)
	}
	text, err := generate(kernels.All(), taken)
	if err != nil {
		log.Fatal("genbuilder: ", err)
	}
	if *check {
		if have, err := os.ReadFile(*out); err != nil || !bytes.Equal(have, text) {
			log.Fatalf("genbuilder: %s is not up to date: run go generate ./graph", *out)
		}
		return
	}
	if err := os.WriteFile(*out, text, 0o644); err != nil {
		log.Fatal(fmt.Errorf("genbuilder: %w", err))
	}
}
