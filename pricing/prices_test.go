package pricing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRatio: a label has its own ratio, or that of the same implementation in other orders, in other nodes, or of all.
func TestRatio(t *testing.T) {
	var list Prices
	add := func(node, impl string, order, operand []int, predicted, measured float64) {
		list.AddPrice(LabelPrice{Node: node, Op: "conv2d", Implementation: impl, Order: order, Operands: [][]int{operand},
			PredictedNS: predicted, MeasuredNS: measured, Samples: 3})
	}
	add("c", "nhwc", []int{0, 2, 3, 1}, []int{0}, 100, 900) // replaced
	add("c", "nhwc", []int{0, 2, 3, 1}, []int{0}, 100, 200)
	add("c", "nhwc", []int{0, 2, 3, 1}, []int{1}, 100, 400)
	add("c", "nchw", []int{0, 1, 2, 3}, []int{0}, 50, 25)
	add("b", "nhwc", []int{0, 2, 3, 1}, []int{0}, 10, 70)
	require.Len(t, list.Prices, 4)
	base := DefaultProfile()
	p := base.WithPrices(&list)
	require.NoError(t, p.Check())
	require.NotEqual(t, base.Digest(), p.Digest())
	require.Equal(t, base.Digest(), p.WithPrices(nil).Digest())
	for _, c := range []struct {
		node, op, impl string
		order          []int
		want           float64
	}{
		{"c", "conv2d", "nhwc", []int{0, 2, 3, 1}, 3},
		{"c", "conv2d", "nhwc", []int{0, 1, 2, 3}, 3},
		{"c", "conv2d", "nchw", []int{0, 2, 3, 1}, 0.5},
		{"b", "conv2d", "nhwc", []int{0, 2, 3, 1}, 7},
		{"d", "conv2d", "nhwc", nil, 4},               // the median of b and c
		{"b", "conv2d", "nchw", []int{0, 2, 3, 1}, 1}, // one price says nothing about other nodes
		{"b", "linear", "nhwc", []int{0, 2, 3, 1}, 1},
	} {
		ratio := p.Ratio(c.node, c.op, c.impl, c.order)
		require.Equal(t, c.want, ratio.Price, c)
		require.Less(t, ratio.Low, ratio.Price)
		require.Less(t, ratio.Price, ratio.High)
		require.Equal(t, Ratio{1, 0.4, 2.5}, base.Ratio(c.node, c.op, c.impl, c.order), c)
	}
	for _, node := range []string{"e", "f", "g", "h"} {
		add(node, "plain", nil, nil, 10, 30)
	}
	many := base.WithPrices(&list)
	read := *many
	read.medians = nil // as a profile that was read from a file
	for _, p := range []*Profile{many, &read} {
		require.Equal(t, Ratio{3, 1.5, 6}, p.Ratio("b", "linear", "nhwc", nil), "the median of all")
	}
}

// TestReadPrices: errors name the entry; members of other outputs are ignored.
func TestReadPrices(t *testing.T) {
	entry := `{"node": "c", "op": "conv2d", "implementation": "nhwc", "order": [0], "predicted_ns": %s, "measured_ns": 3, "samples": 2}`
	list, err := ReadPrices(strings.NewReader(`{"version": 1, "steps": [{}], "prices": [` + fmt.Sprintf(entry, "2") + `]}`))
	require.NoError(t, err)
	require.Equal(t, 1.5, (*Profile)(nil).WithPrices(list).Ratio("c", "conv2d", "nhwc", []int{0}).Price)
	for text, want := range map[string]string{
		`{"version": 2, "prices": []}`: "version 2: want 1",
		`{"version": 1, "steps": []}`:  `the file has no "prices"`,
		`{"version": 1, "prices": [` + fmt.Sprintf(entry, "2") + "," + fmt.Sprintf(entry, "0") + `]}`:                              `prices[1], node "c": measured_ns 3 and predicted_ns 0`,
		`{"version": 1, "prices": [` + fmt.Sprintf(entry, "-1") + `]}`:                                                             "want positive times",
		`{"version": 1, "prices": [` + fmt.Sprintf(entry, "1e-9") + `]}`:                                                           "with a ratio up to 10000",
		`{"version": 1, "prices": [` + strings.Replace(fmt.Sprintf(entry, "2"), "}", `, "low_ns": 4, "high_ns": 5}`, 1) + `]}`:     "low_ns 4 and high_ns 5: want an interval around measured_ns 3",
		`{"version": 1, "prices": [` + strings.Replace(fmt.Sprintf(entry, "2"), "}", `, "low_ns": -1}`, 1) + `]}`:                  "low_ns -1 and high_ns 0",
		`{"version": 1, "prices": [` + strings.Replace(fmt.Sprintf(entry, "2"), "}", `, "low_ns": 1, "high_ns": 1e300}`, 1) + `]}`: "want an interval",
		`{"version": 1, "prices": 3}`: "prices",
		`[]`:                          "object",
	} {
		_, err := ReadPrices(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}
