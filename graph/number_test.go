package graph_test

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/sym"
)

// TestSizesAsNumbers checks that an attribute that is a number takes a size, known or not, as decompositions give it.
func TestSizesAsNumbers(t *testing.T) {
	type attrs struct {
		End graph.NumberOrSize `attr:"end" doc:"a number"`
	}
	s := graph.SchemaOf[attrs]()
	n, err := sym.NewEnv().Symbol("N", 0, 100, 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []sym.Int{sym.Of(5), n, n.Add(sym.Of(1))} {
		decoded, err := s.Decode(graph.Attrs{"end": size}, nil)
		if err != nil {
			t.Fatal(err)
		}
		end := decoded.(*attrs).End
		if known, ok := size.Known(); ok {
			if end.Number.Int() != int64(known) {
				t.Errorf("%v: got %v", size, end.Number)
			}
		} else if !end.Size.Eq(size).Holds() || end.Size.Hint() != size.Hint() {
			t.Errorf("%v: got %v", size, end.Size)
		}
	}
}
