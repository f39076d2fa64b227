package quantized

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/window"
)

// rewriteMaxPool rewrites a quantization whose operand is the result of n, a max_pool2d of dequantized numbers. The
// result is a max_pool2d of bytes. The results are the same, because quantization is monotonic and dequantized numbers
// are not NaN.
func (q *quantizeRewriter) rewriteMaxPool(n *graph.Node) (r graph.Rewrite, err error) {
	if n.Op != window.MaxPool2d || !q.UsedOnlyHere(n.Out[0]) {
		return r, nil
	}
	if _, ok := dequantized(n.In[0]); !ok {
		return r, nil
	}
	at, ok := window.InIntegers(n.Call(), q.Call.Out[0].DType)
	if !ok {
		return r, nil
	}
	bytes, err := q.into.Again(q.into.Whole(), append([]graph.Arg{n.In[0]}, q.Call.In[1:]...)...)
	if err != nil {
		return r, err
	}
	r.Of, r.Why = n, fmt.Sprintf("%s computes the maximum of bytes", n.Name)
	r.Results, err = q.Result(q.Add(window.MaxPool2d, at, graph.Of(bytes[0])))
	return r, err
}
