package quantized

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/pool"
)

// rewriteMaxPool moves a quantization (q.Call) before the pooling that computes its operand. The pooling is a
// max_pool2d of dequantized numbers. The new max_pool2d computes with bytes (quantized values of dtype int8 or uint8).
// The results are the same, because quantization is monotonic and dequantized numbers are not NaN.
func (q *quantizeRewriter) rewriteMaxPool(pooling *graph.Node) (rewrite graph.Rewrite, err error) {
	if pooling.Op.Base() != pool.MaxPool2d || !q.UsedOnlyHere(pooling.Out[0]) {
		return rewrite, nil
	}
	if _, ok := dequantized(pooling.In[0]); !ok {
		return rewrite, nil
	}
	// attrs describe the same pooling, but of integers.
	attrs, ok := pool.InIntegers(pooling.Call(), q.Call.Out[0].DType)
	if !ok {
		return rewrite, nil
	}
	// A copy of the quantize_linear that is rewritten quantizes the operand of the pooling.
	bytes, err := q.newNodes.Repeat(q.newNodes.ReplacedNode(), append([]graph.Arg{pooling.In[0]}, q.Call.In[1:]...)...)
	if err != nil {
		return rewrite, err
	}
	// The pooling is no longer needed.
	rewrite.Replaced, rewrite.Why = pooling, fmt.Sprintf("%s computes the maximum of bytes", pooling.Name)
	rewrite.Results, err = q.Result(q.Add(pool.MaxPool2d, attrs, graph.ArgOf(bytes[0])))
	return rewrite, err
}
