package quantized

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/pool"
)

// rewriteMaxPool rewrites a quantization whose operand is the result of node, a max_pool2d of dequantized numbers. The
// rewritten graph computes a max_pool2d of bytes (quantized values of dtype int8 or uint8). The results are the same,
// because quantization is monotonic and dequantized numbers are not NaN.
func (q *quantizeRewriter) rewriteMaxPool(node *graph.Node) (rewrite graph.Rewrite, err error) {
	if node.Op != pool.MaxPool2d || !q.UsedOnlyHere(node.Out[0]) {
		return rewrite, nil
	}
	if _, ok := dequantized(node.In[0]); !ok {
		return rewrite, nil
	}
	attrs, ok := pool.InIntegers(node.Call(), q.Call.Out[0].DType)
	if !ok {
		return rewrite, nil
	}
	// The rewritten node, quantize_linear, is repeated with the operand of the pooling.
	bytes, err := q.parts.Repeat(q.parts.ReplacedNode(), append([]graph.Arg{node.In[0]}, q.Call.In[1:]...)...)
	if err != nil {
		return rewrite, err
	}
	rewrite.Replaced, rewrite.Why = node, fmt.Sprintf("%s computes the maximum of bytes", node.Name)
	rewrite.Results, err = q.Result(q.Add(pool.MaxPool2d, attrs, graph.ArgOf(bytes[0])))
	return rewrite, err
}
