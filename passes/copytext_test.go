package passes

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/report"
)

// The sentence has the cost with its share of the plan, constants, and the number of readers.
func TestCopyText(t *testing.T) {
	s := &report.Copy{CostNS: 44210, Share: 0.0032, Advice: "store `w` in (N,H,W,C)",
		Producer: report.Producer{Kind: "constant", Name: "w", Layout: "(N,C,H,W)"},
		Reader:   report.Reader{Kind: "node", Name: "conv", Impl: "nhwc", OtherReaders: 2, Layout: "(N,H,W,C)"}}
	assert.Equal(t, "constant `w` is stored in (N,C,H,W); `conv` (nhwc) and 2 other readers need (N,H,W,C); "+
		"the copy costs 44.21µs, 0.3% of the plan; to avoid it, store `w` in (N,H,W,C)", copyText(s))
	s.Share, s.Advice, s.Reader.OtherReaders = 0.0002, "", 1
	assert.Contains(t, copyText(s), "1 other reader need (N,H,W,C); the copy costs 44.21µs, less than 0.1% of the plan")
	assert.Empty(t, new(Plan).Explainer().Explain(nil))
}
