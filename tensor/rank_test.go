package tensor

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/sym"
)

func TestRankIsBounded(t *testing.T) {
	for rank, refused := range map[int]bool{maxOrderRank: false, maxOrderRank + 1: true} {
		m := Meta{DType: Float32, Shape: make([]int, rank), Strides: make([]int, rank)}
		typ := Type{DType: Float32, Shape: make([]sym.Int, rank), Strides: make([]sym.Int, rank)}
		for d := range rank {
			m.Shape[d], m.Strides[d], typ.Shape[d], typ.Strides[d] = 1, 1, sym.Of(1), sym.Of(1)
		}
		for _, err := range []error{m.Check(), typ.Check()} {
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "257 dimensions") {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	}
}
