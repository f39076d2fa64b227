package graphfile_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/kernels"
)

// A graph is read, and written in its canonical form.
func Example() {
	text := `{"version": 1, "name": "sum", "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
		"nodes": [{"name": "y", "op": "sum", "inputs": ["x"], "attrs": {"dim": [1]}}], "outputs": ["y"]}`
	g, err := graphfile.Read(strings.NewReader(text), kernels.Lookup, graphfile.Options{Name: "sum.json"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(g.Value("y").Meta)
	if err := graphfile.Save(os.Stdout, g); err != nil {
		fmt.Println(err)
	}
	// Output:
	// float32[2]@(1)
	// {
	//   "version": 1,
	//   "name": "sum",
	//   "inputs": [
	//     {"name": "x", "dtype": "float32", "shape": [2, 3]}
	//   ],
	//   "nodes": [
	//     {"name": "y", "op": "sum", "inputs": ["x"], "attrs": {"dim": [1]}}
	//   ],
	//   "outputs": [
	//     "y"
	//   ]
	// }
}

// All mistakes are reported at once, with their places.
func ExampleParse() {
	text := `{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
"nodes": [{"name": "y", "op": "rlu", "inputs": ["x"]}, {"name": "z", "op": "relu", "inputs": ["xx"]}], "outputs": ["y"]}`
	_, err := graphfile.Parse(strings.NewReader(text), kernels.Lookup, graphfile.Options{Name: "g.json"})
	fmt.Println(err)
	// Output:
	// g.json:2:11: node "y" (rlu): there is no op "rlu"; did you mean relu?
	// g.json:2:95: node "z" (relu): there is no value "xx"; did you mean "x"?
}
