package pricing

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// LabelPrice is the measured price of one way to compute a node, at the sizes of the measurement: a label of the
// layout problem. Where the problem has the label, its predicted price is multiplied by measured/predicted, so that the
// price also serves other sizes.
type LabelPrice struct {
	Node           string  `json:"node" doc:"The node, by the name that plan shows."`
	Op             string  `json:"op" doc:"The op of the node."`
	Implementation string  `json:"implementation" doc:"The implementation of the op."`
	Order          []int   `json:"order" doc:"The order of the dimensions of the first result, from the slowest; empty if the result is not dense."`
	Operands       [][]int `json:"operands,omitempty" doc:"The orders of the operands; an empty list for a number, or for an operand that is not dense."`
	PredictedNS    float64 `json:"predicted_ns" doc:"The estimated cost, in nanoseconds."`
	MeasuredNS     float64 `json:"measured_ns" doc:"The median of the measured times, in nanoseconds."`
	Samples        int     `json:"samples" doc:"The number of measured times."`
	LowNS          float64 `json:"low_ns,omitzero" doc:"The lower end of the confidence interval of the median; left out if there are too few samples."`
	HighNS         float64 `json:"high_ns,omitzero" doc:"Its upper end."`
}

// PricesVersion is the version of files of prices.
const PricesVersion = 1

// Prices is a file of measured prices. Other members of the object are ignored, so that the JSON output of plan
// --measure is such a file.
type Prices struct {
	Version int          `json:"version" const:"1" doc:"The version of the file: 1."`
	Prices  []LabelPrice `json:"prices" doc:"The measured prices."`
}

// maxFactor bounds measured/predicted and its inverse.
const maxFactor = 1e4

// isFactor reports whether x can be a measured price divided by a prediction. NaN cannot.
func isFactor(x float64) bool { return x >= 1/maxFactor && x <= maxFactor }

// ReadPrices reads a file of prices and checks it. Errors name the entry.
func ReadPrices(r io.Reader) (*Prices, error) {
	var list Prices
	if err := json.UnmarshalRead(r, &list, jsontext.AllowDuplicateNames(false)); err != nil {
		return nil, withoutGoTypes(err)
	}
	switch {
	case list.Version != PricesVersion:
		return nil, fmt.Errorf("version %d: want %d", list.Version, PricesVersion)
	case len(list.Prices) == 0:
		return nil, fmt.Errorf("the file has no \"prices\": plan --measure --json writes them")
	}
	return &list, checkPrices(list.Prices)
}

// checkPrices returns an error for the first entry whose numbers are impossible.
func checkPrices(list []LabelPrice) error {
	for i, price := range list {
		if price.PredictedNS <= 0 || !isFactor(price.MeasuredNS/price.PredictedNS) {
			return fmt.Errorf("prices[%d], node %q: measured_ns %g and predicted_ns %g: want positive times with a "+
				"ratio up to %g", i, price.Node, price.MeasuredNS, price.PredictedNS, float64(maxFactor))
		}
		if price.Node == "" || price.Samples < 0 {
			return fmt.Errorf("prices[%d], node %q: want a name and a number of samples of at least 0", i, price.Node)
		}
	}
	return nil
}

// compare orders prices by the label that they price.
func (price *LabelPrice) compare(node, op, implementation string, order []int) int {
	return cmp.Or(cmp.Compare(price.Node, node), cmp.Compare(price.Op, op),
		cmp.Compare(price.Implementation, implementation), slices.Compare(price.Order, order))
}

// WithPrices returns the profile with measured prices in place of its own. A nil profile means [DefaultProfile].
func (p *Profile) WithPrices(prices *Prices) *Profile {
	if p == nil {
		p = SharedDefaultProfile()
	}
	changed := *p
	if changed.Prices = nil; prices != nil {
		changed.Prices = slices.Clone(prices.Prices)
	}
	slices.SortStableFunc(changed.Prices, func(a, b LabelPrice) int {
		return cmp.Or(a.compare(b.Node, b.Op, b.Implementation, b.Order),
			slices.CompareFunc(a.Operands, b.Operands, slices.Compare))
	})
	return &changed
}

// AddPrice adds a measured price. It replaces the price of the same label with operands in the same orders, if any.
func (list *Prices) AddPrice(price LabelPrice) {
	same := func(other LabelPrice) bool {
		return other.compare(price.Node, price.Op, price.Implementation, price.Order) == 0 &&
			slices.EqualFunc(other.Operands, price.Operands, slices.Equal)
	}
	list.Version = PricesVersion
	list.Prices = append(slices.DeleteFunc(list.Prices, same), price)
}

// Factor returns the measured price of a label divided by the prediction, or 1 if nothing of it was measured. If it was
// measured with operands in several orders, it is the ratio of the sums. If only other orders of the result were
// measured with this implementation of the node, it is their ratio.
func (p *Profile) Factor(node, op, implementation string, order []int) float64 {
	if p == nil || len(p.Prices) == 0 {
		return 1
	}
	first, _ := slices.BinarySearchFunc(p.Prices, node, func(price LabelPrice, _ string) int {
		return price.compare(node, op, implementation, nil)
	})
	var same, others LabelPrice // sums
	for _, price := range p.Prices[first:] {
		if price.Node != node || price.Op != op || price.Implementation != implementation {
			break
		}
		sum := &others
		if slices.Equal(price.Order, order) {
			sum = &same
		}
		sum.MeasuredNS, sum.PredictedNS = sum.MeasuredNS+price.MeasuredNS, sum.PredictedNS+price.PredictedNS
	}
	for _, sum := range []LabelPrice{same, others} {
		if factor := sum.MeasuredNS / sum.PredictedNS; isFactor(factor) {
			return factor
		}
	}
	return 1
}
