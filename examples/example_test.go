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
	p, err := graphrun.Compile(context.Background(), g, graphrun.Options{})
	check(err)
	out, err := p.Run(context.Background(), map[string]*tensor.Tensor{
		"x": tensor.Empty(x.Meta), // zeros
		"b": tensor.Must(tensor.FromSlice([]float32{-1, 0, 1}, 3, 1, 1)),
	})
	check(err)
	fmt.Println(out["y"].Meta, out["y"].At(0, 2, 0, 0))
	// Output: float32[2,3,4,5]@(60,1,15,3) 1
}

// A file is loaded and compiled; slices become tensors and back without a copy.
func Example_file() {
	ctx, image, skip := context.Background(), make([]float32, 8*16*16), make([]float32, 8*16*16)
	g, err := graphrun.Load(ctx, "models/residual.json") // or an ONNX model
	check(err)
	p, err := graphrun.Compile(ctx, g, graphrun.Options{})
	check(err)
	out, err := p.Run(ctx, map[string]*tensor.Tensor{
		"image": tensor.Must(tensor.FromSlice(image, 1, 8, 16, 16)),
		"skip":  tensor.Must(tensor.FromSlice(skip, 1, 8, 16, 16))})
	check(err)
	y := tensor.Data[float32](out["y"]) // []float32
	fmt.Printf("%v %d %.4f\n", p.Inputs()[0].Sizes, len(y), y[0])
	// Output: [N 8 16 16] 2048 0.0642
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
	for name, omitted := range map[string]string{"Example": "", "Example_file": "\tcheck(err)\n"} {
		_, body, _ := strings.Cut(string(source), "func "+name+"() {\n")
		body, _, _ = strings.Cut(body, "\t// Output:")
		for line := range strings.Lines(body) {
			if line == omitted || strings.HasPrefix(line, "\tctx, ") {
				continue
			}
			line = strings.TrimRight(strings.ReplaceAll(strings.TrimPrefix(line, "\t"), "\t", "    "), "\n")
			if !strings.Contains(string(readme), "    "+line) {
				t.Errorf("README.md lacks the line %q", line)
			}
		}
	}
}
