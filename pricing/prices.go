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
	Order          []int   `json:"order" doc:"The order of the dimensions of the first result, from the slowest; dimensions of size 1 come first."`
	Operands       [][]int `json:"operands,omitempty" doc:"The orders of the operands; an empty list for a number."`
	PredictedNS    float64 `json:"predicted_ns" doc:"The estimated cost, in nanoseconds."`
	MeasuredNS     float64 `json:"measured_ns,omitzero" doc:"The median of the measured times, in nanoseconds; left out if the label was not measured."`
	Samples        int     `json:"samples,omitzero" doc:"The number of measured times."`
	LowNS          float64 `json:"low_ns,omitzero" doc:"The lower end of the confidence interval of the median; left out if there are too few samples."`
	HighNS         float64 `json:"high_ns,omitzero" doc:"Its upper end."`
	Label          string  `json:"label,omitzero" doc:"The label of the layout problem, in files of plan --problem."`
}

// PricesVersion is the version of files of prices.
const PricesVersion = 1

// Prices is a file of measured prices. Other members of the object, and labels without a measured price, are ignored, so
// that the files of tune and of plan --problem and the JSON output of plan --measure are such files.
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
		return nil, fmt.Errorf("the file has no \"prices\": plan --measure --json and tune write them")
	}
	list.Prices = slices.DeleteFunc(list.Prices, func(price LabelPrice) bool { return price.MeasuredNS == 0 })
	return &list, checkPrices(list.Prices)
}

// checkPrices returns an error for the first entry whose numbers are impossible.
func checkPrices(list []LabelPrice) error {
	for i, price := range list {
		if price.PredictedNS <= 0 || !isFactor(price.MeasuredNS/price.PredictedNS) {
			return fmt.Errorf("prices[%d], node %q: measured_ns %g and predicted_ns %g: want positive times with a "+
				"ratio up to %g", i, price.Node, price.MeasuredNS, price.PredictedNS, float64(maxFactor))
		}
		hasInterval := price.LowNS != 0 || price.HighNS != 0
		if hasInterval && !(price.LowNS > 0 && price.LowNS <= price.MeasuredNS && price.MeasuredNS <= price.HighNS &&
			isFactor(price.HighNS/price.LowNS)) {
			return fmt.Errorf("prices[%d], node %q: low_ns %g and high_ns %g: want an interval around measured_ns %g", i,
				price.Node, price.LowNS, price.HighNS, price.MeasuredNS)
		}
		if price.Node == "" || price.Samples < 0 {
			return fmt.Errorf("prices[%d], node %q: want a name and a number of samples of at least 0", i, price.Node)
		}
	}
	return nil
}

// FindPrice returns the measured price of a label with operands in the same orders, or nil if it was not measured.
func (p *Profile) FindPrice(label *LabelPrice) *LabelPrice {
	if p == nil || label == nil {
		return nil
	}
	first, found := slices.BinarySearchFunc(p.Prices, label, func(price LabelPrice, label *LabelPrice) int {
		return price.compareLabels(label)
	})
	if !found {
		return nil
	}
	return &p.Prices[first]
}

// compareLabels orders prices by the label that they price, with its operands.
func (price *LabelPrice) compareLabels(other *LabelPrice) int {
	return cmp.Or(price.compare(other.Node, other.Op, other.Implementation, other.Order),
		slices.CompareFunc(price.Operands, other.Operands, slices.Compare))
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
		return a.compareLabels(&b)
	})
	changed.medians = mediansOf(changed.Prices)
	return &changed
}

// AddPrice adds a measured price. It replaces the price of the same label with operands in the same orders, if any.
func (list *Prices) AddPrice(price LabelPrice) {
	same := func(other LabelPrice) bool { return other.compareLabels(&price) == 0 }
	list.Version = PricesVersion
	list.Prices = append(slices.DeleteFunc(list.Prices, same), price)
}

// Ratio is the price of a label divided by its prediction, and the interval in which this quotient lies.
type Ratio struct{ Price, Low, High float64 }

// Factors by which the interval of a [Ratio] extends to either side of prices that were not measured.
const (
	fewSamples   = 1.5 // measured, but without a confidence interval
	otherOrders  = 1.5 // measured with results in other orders only
	otherNodes   = 2.0 // not measured, but other labels were
	noneMeasured = 2.5 // too few were measured: implementations take 0.73 to 2.5 times their predictions
)

// around returns the ratio of a price that lies within a factor of the given one.
func around(price, factor float64) Ratio { return Ratio{price, price / factor, price * factor} }

// add adds another price to the sums of several prices.
func (price *LabelPrice) add(other *LabelPrice) {
	low, high := other.LowNS, other.HighNS
	if low <= 0 || high < low {
		low, high = other.MeasuredNS/fewSamples, other.MeasuredNS*fewSamples
	}
	price.MeasuredNS, price.PredictedNS = price.MeasuredNS+other.MeasuredNS, price.PredictedNS+other.PredictedNS
	price.LowNS, price.HighNS = price.LowNS+low, price.HighNS+high
}

// Ratio returns the measured price of a label divided by the prediction, with the confidence interval. If the label was
// measured with operands in several orders, it is the ratio of the sums. If only other orders of the result were
// measured with this implementation of the node, it is their ratio, in a wider interval. Otherwise it is the median ratio
// of the op's implementation in other nodes or, if there are less than 3, of all prices, within a factor of 2. With less
// than 8 prices it is 1, within a factor of 2.5.
func (p *Profile) Ratio(node, op, implementation string, order []int) Ratio {
	if p == nil || len(p.Prices) == 0 {
		return around(1, noneMeasured)
	}
	first, _ := slices.BinarySearchFunc(p.Prices, node, func(price LabelPrice, _ string) int {
		return price.compare(node, op, implementation, nil)
	})
	var same, others LabelPrice // sums
	for i := first; i < len(p.Prices); i++ {
		price := &p.Prices[i]
		if price.Node != node || price.Op != op || price.Implementation != implementation {
			break
		}
		if slices.Equal(price.Order, order) {
			same.add(price)
		} else {
			others.add(price)
		}
	}
	if price := same.MeasuredNS / same.PredictedNS; isFactor(price) {
		return Ratio{price, same.LowNS / same.PredictedNS, same.HighNS / same.PredictedNS}
	}
	if price := others.MeasuredNS / others.PredictedNS; isFactor(price) {
		return around(price, otherOrders)
	}
	medians := p.medians
	if medians == nil { // the profile was not made by WithPrices
		medians = mediansOf(p.Prices)
	}
	if ratio, known := medians.kinds[kind{op, implementation}]; known {
		return around(ratio, otherNodes)
	}
	if medians.all > 0 {
		return around(medians.all, otherNodes)
	}
	return around(1, noneMeasured)
}

// kind is an implementation of an op.
type kind struct{ op, implementation string }

// medianRatios has the medians of measured/predicted over the prices of each kind, and over all prices.
type medianRatios struct {
	kinds map[kind]float64
	all   float64 // 0 for too few prices
}

// The least numbers of prices whose median is the ratio of labels that were not measured: a few prices, which a user may
// have written, say nothing about others.
const (
	leastOfKind = 3
	leastOfAll  = 8
)

// mediansOf returns the medians of the given prices.
func mediansOf(prices []LabelPrice) *medianRatios {
	medians, ratios, all := &medianRatios{kinds: map[kind]float64{}}, map[kind][]float64{}, []float64{}
	for i := range prices {
		price := &prices[i]
		if ratio := price.MeasuredNS / price.PredictedNS; isFactor(ratio) {
			of := kind{price.Op, price.Implementation}
			ratios[of], all = append(ratios[of], ratio), append(all, ratio)
		}
	}
	for of, list := range ratios {
		if len(list) >= leastOfKind {
			medians.kinds[of] = medianOf(list)
		}
	}
	if len(all) >= leastOfAll {
		medians.all = medianOf(all)
	}
	return medians
}

// medianOf returns the median of a list, which it sorts; the lower of the middle two.
func medianOf(list []float64) float64 {
	slices.Sort(list)
	return list[(len(list)-1)/2]
}
