//go:build !direct

package inference_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/graphrun/graphrun/beam/inference"
	"github.com/graphrun/graphrun/tensor"
)

func init() {
	register.Function1x1(newElement)
	register.Function1x0(printElement)
}

func newElement(x float32) inference.Element {
	t, _ := tensor.FromSlice([]float32{x, x + 1}, 1, 2)
	return inference.Element{Name: fmt.Sprint("from ", x), Tensors: map[string]*tensor.Tensor{"x": t}}
}

func printElement(e inference.Element) {
	fmt.Println(e.Name, e.Tensors["y"].At(0, 0), e.Tensors["y"].At(0, 1))
}

// A pipeline of three transforms, on Prism in this process.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	model := filepath.Join(dir, "double.json")
	err = os.WriteFile(model, []byte(`{"version": 1, "symbols": {"N": {}},
		"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 2]}],
		"nodes": [{"name": "y", "op": "mul", "inputs": ["x", 2]}], "outputs": ["y"]}`), 0o666)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, s := beam.NewPipelineWithRoot()
	elements := beam.ParDo(s, newElement, beam.Create(s, float32(1), float32(5)))
	beam.ParDo0(s, printElement, inference.Run(s, inference.Options{Model: model}, elements))
	if _, err := prism.Execute(context.Background(), p); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// from 1 2 4
	// from 5 10 12
}
