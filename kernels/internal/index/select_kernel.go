package index

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
)

// selectKernel returns a kernel that selects the slices of operand 0 along dim whose numbers are in index. In the
// result, the dimensions of index replace dimension dim. For example, with an operand of shape [4 5 6], dim 1 and an
// index of shape [2 3]:
//
//	result[a, i, j, b] = operand[a, index[i, j], b]    of shape [4 2 3 6]
//
// The kernel is an indexed walk (walk.go): a loop over the elements of the result. The table is operand 0 of the op,
// and the lookup l (lookupAlong) adds an index times the stride of dim to the address in the table. The table has stride 0 in the
// dimensions of the result that come from the index. The index has stride 0 in all other dimensions.
func selectKernel(c *graph.Call, index kit.Buffer, l lookup) *graph.Kernel {
	dim := l.dim
	out, selfMeta, indexMeta := c.Out[0], tableMeta(c), index.Meta
	var tableStrides, indexStrides []int // by dimension of the result
	for selfDim := range selfMeta.Rank() {
		if selfDim != dim {
			tableStrides = append(tableStrides, kit.ByteStride(selfMeta, selfDim))
			indexStrides = append(indexStrides, 0)
			continue
		}
		tableStrides = append(tableStrides, make([]int, indexMeta.Rank())...)
		indexStrides = append(indexStrides, kit.ByteStrides(indexMeta)...)
		// For a 0-dim index, some ops remove dim; others keep it with size 1.
		if indexMeta.Rank() == 0 && out.Rank() == selfMeta.Rank() {
			tableStrides, indexStrides = append(tableStrides, 0), append(indexStrides, 0)
		}
	}
	table := walkOperand{Buffer: kit.InBuffer(c, 0), byteStrides: tableStrides}
	indexOperand := walkOperand{Buffer: index, byteStrides: indexStrides}
	walk := &indexedWalk{shape: out.Shape, operands: []walkOperand{operandAt(0, out), table, indexOperand},
		lookups: []lookup{l}}
	walk.readView(c, func(selfDim int) int {
		if selfDim > dim {
			return selfDim + out.Rank() - selfMeta.Rank() // the last dimensions of both
		}
		return selfDim
	})
	return walk.kernel(kit.GatherRowLoops(out.DType))
}
