package contiguity_test

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/contiguity"
)

// The notebook that is the source of the predicates does not prove that both forms are equivalent.
func ExampleProve() {
	p, err := contiguity.Prove(contiguity.Predicates[0], 3)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Formula)
	fmt.Println(len(p.Atoms), "atoms,", len(p.Paths), "ways, proved:", p.Proved)
	// Output:
	// Eq(x1*x2*x3, 0) | ((Eq(x2, 1) | Eq(y2, x3)) & (Eq(x3, 1) | Eq(y3, 1)) & (Eq(x1, 1) | Eq(y1, x2*x3)))
	// 11 atoms, 16 ways, proved: true
}
