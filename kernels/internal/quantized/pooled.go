package quantized

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/pool"
)

// rewriteMaxPool moves a quantization (q.Call) before the pooling that computes its operand. node is the pooling, a
// max_pool2d of dequantized numbers. The new max_pool2d computes with bytes (quantized values of dtype int8 or uint8).
// The results are the same, because quantization is monotonic and dequantized numbers are not NaN.
func (q *quantizeRewriter) rewriteMaxPool(node *graph.Node) (rewrite graph.Rewrite, err error) {
	if node.Op != pool.MaxPool2d || !q.UsedOnlyHere(node.Out[0]) {
		return rewrite, nil
	}
	if _, ok := dequantized(node.In[0]); !ok {
		return rewrite, nil
	}
	// attrs describe the same pooling, but of integers.
	attrs, ok := pool.InIntegers(node.Call(), q.Call.Out[0].DType)
	if !ok {
		return rewrite, nil
	}
	// A copy of the replaced quantize_linear quantizes the operand of the pooling.
	bytes, err := q.newNodes.Repeat(q.newNodes.ReplacedNode(), append([]graph.Arg{node.In[0]}, q.Call.In[1:]...)...)
	if err != nil {
		return rewrite, err
	}
	rewrite.Replaced, rewrite.Why = node, fmt.Sprintf("%s computes the maximum of bytes", node.Name)
	rewrite.Results, err = q.Result(q.Add(pool.MaxPool2d, attrs, graph.ArgOf(bytes[0])))
	return rewrite, err
}
