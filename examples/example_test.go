// Package examples shows graphrun from Go. The graph files beside it are explained in
// models/README.md.
package examples

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/op"
	"github.com/graphrun/graphrun/tensor"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Building a graph collects mistakes, compiling chooses layouts and prepares all loops; the program can
// then run any number of times.
func Example() {
	g := graphrun.New("demo")
	x := g.InputFormat("x", tensor.Float32, tensor.ChannelsLast, 2, 3, 4, 5)
	b := g.Input("b", tensor.Float32, 3, 1, 1)
	g.Output("y", op.Relu(op.Add(x, b)))
	check(g.Err()) // every mistake made so far
	p, err := graphrun.Compile(g, graphrun.Options{})
	check(err)
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{
		"x": tensor.Empty(x.Meta), // zeros
		"b": tensor.Must(tensor.FromSlice([]float32{-1, 0, 1}, 3, 1, 1)),
	})
	check(err)
	fmt.Println(out["y"].Meta, out["y"].At(0, 2, 0, 0))
	// Output: float32[2,3,4,5]@(60,1,15,3) 1
}

// TestREADME holds the program in README.md to the one above, which is compiled.
func TestREADME(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func Example() {\n")
	body, _, _ = strings.Cut(body, "\t// Output:")
	for line := range strings.Lines(body) {
		line = strings.ReplaceAll(strings.TrimPrefix(line, "\t"), "\t", "    ")
		if !strings.Contains(string(readme), "    "+line) {
			t.Errorf("README.md lacks the line %q", line)
		}
	}
}
