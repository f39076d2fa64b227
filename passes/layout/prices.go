package layout

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// LabelPrices lists the labels of the nodes that have implementations on the host, and the copies of values, with their
// predicted prices and, where the profile has them, their measured prices. Operands have the forms that are cheapest to
// read.
func (m *Model) LabelPrices() []pricing.LabelPrice {
	list := []pricing.LabelPrice{}
	if m.check() != nil {
		return list
	}
	add := func(price pricing.LabelPrice) {
		if measured := m.Problem.Profile.FindPrice(&price); measured != nil {
			price.MeasuredNS, price.Samples = measured.MeasuredNS, measured.Samples
			price.LowNS, price.HighNS = measured.LowNS, measured.HighNS
		}
		list = append(list, price)
	}
	for _, computed := range m.computedNodes {
		if computed == nil {
			continue
		}
		for i := range computed.labels {
			if price, ok := m.labelPrice(computed, i); ok {
				add(price)
			}
		}
	}
	for _, v := range m.variableList {
		if v.id == noVariable || m.copyOp == nil {
			continue
		}
		matrix, count := m.copyCostMatrix(v), len(v.forms)
		for from := range count {
			for to := range count {
				ps := matrix[from*count+to]
				isOnHost := v.forms[from].place == tensor.Host && v.forms[to].place == tensor.Host
				if from == to || ps >= wcsp.Forbidden || !isOnHost || v.forms[from].slot != nil {
					continue
				}
				add(pricing.LabelPrice{Node: v.value.Name, Op: m.copyOp.Name, Implementation: m.copyOp.Impls[0].Name,
					Order: v.forms[to].priceOrder(), Operands: [][]int{v.forms[from].priceOrder()},
					PredictedNS: float64(ps) / v.copyRatios[to].Price / pricing.PSPerNS, Label: v.forms[to].text()})
			}
		}
	}
	return list
}

// priceOrder returns the order of a form for a [pricing.LabelPrice].
func (f *form) priceOrder() []int { return priceOrder([]tensor.Meta{f.meta}) }

// labelPrice returns label i of a node with its predicted price. It returns false for a label that no price of the host
// concerns.
func (m *Model) labelPrice(computed *computedNode, i int) (price pricing.LabelPrice, ok bool) {
	n, l := computed.node, &computed.labels[i]
	if l.impl == nil || l.impl.OnDevice() || l.impl.ResultPlace != tensor.Host || len(n.Out) == 0 {
		return price, false
	}
	price = pricing.LabelPrice{Node: n.Name, Op: n.Op.Name, Implementation: l.impl.Name,
		Order: m.variables.At(n.Out[0]).forms[l.resultForms[0]].priceOrder(), Label: l.text()}
	if computed.id != noVariable {
		price.Label = m.WCSP.Variables[computed.id].Labels[i]
	}
	ps := l.cost
	for k, arg := range n.In {
		operand := []int{}
		if arg.Kind == graph.TensorArg {
			form := l.constantForms[k]
			if l.readCosts[k] != nil {
				form = cheapestForm(l.readCosts[k])
				ps += l.readCosts[k][max(0, form)]
			}
			operand = m.variables.At(arg.Value).forms[max(0, form)].priceOrder()
		}
		price.Operands = append(price.Operands, operand)
	}
	price.PredictedNS = float64(ps) / l.ratio.Price / pricing.PSPerNS
	return price, ps < wcsp.Forbidden
}
