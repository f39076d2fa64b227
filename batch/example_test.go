package batch_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/graphrun/graphrun/batch"
	"github.com/graphrun/graphrun/npz"
)

const double = `{"version": 1, "symbols": {"N": {}},
	"inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 2]}],
	"nodes": [{"name": "y", "op": "mul", "inputs": ["x", 2]}], "outputs": ["y"]}`

// The rows of CSV files run through a model. A second run computes nothing.
func Example() {
	dir, err := os.MkdirTemp("", "batch")
	check(err)
	defer os.RemoveAll(dir)
	model, results := filepath.Join(dir, "double.json"), filepath.Join(dir, "results")
	check(os.WriteFile(model, []byte(double), 0o666))
	check(os.WriteFile(filepath.Join(dir, "a.csv"), []byte("1,2\n3,4\n"), 0o666))
	check(os.WriteFile(filepath.Join(dir, "b.csv"), []byte("1,many\n"), 0o666))
	inputs, err := batch.Find(filepath.Join(dir, "*.csv"))
	check(err)
	for range 2 {
		s, err := batch.Run(context.Background(), model, inputs, results, batch.Options{})
		check(err)
		fmt.Println(s.Done, s.Skipped, s.Failed, s.Failures[0].Error)
	}
	out, err := npz.ReadFile(filepath.Join(results, "a.npz"))
	check(err)
	fmt.Println(out["y"].At(1, 0), out["y"].At(1, 1))
	// Output:
	// 1 0 1 line 1, field 2: "many": want a number within the range of the datatype
	// 0 1 1 line 1, field 2: "many": want a number within the range of the datatype
	// 6 8
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
