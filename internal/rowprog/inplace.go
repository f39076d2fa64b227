package rowprog

import "github.com/graphrun/graphrun/expr"

// This file finds the operands whose memory an output may have.

// InPlace returns pairs of an output and an operand that may have the same memory. Their elements have the same
// addresses, and no pass reads the operand after the first pass that writes the output. (Within a pass, a loop reads an
// element before it writes it.)
func (p *Plan) InPlace() [][2]int {
	var pairs [][2]int
	for output := range p.outCount {
		if !p.program.PerElement[output] {
			continue
		}
		written := p.firstWrite(output)
		for i, meta := range p.callerMetas()[p.outCount:] {
			if meta.DType.Size() == p.metas[output].DType.Size() && meta.SameAddresses(p.metas[output]) &&
				p.lastRead(output) <= written {
				pairs = append(pairs, [2]int{output, i})
			}
		}
	}
	return pairs
}

// firstWrite returns the index of the first pass that writes to an output, or to a stored row in the output's memory.
// It returns 0 if no pass does.
func (p *Plan) firstWrite(output int) int {
	for k := range p.program.Passes {
		for _, place := range p.program.Passes[k].Out {
			isOutput := place.Kind == expr.AtOutput && place.N == output
			if isOutput || place.Kind == expr.AtRow && p.program.Rows[place.N].Out == output {
				return k
			}
		}
	}
	return 0
}

// lastRead returns the index of the last pass that reads an operand with the layout of the output. It considers all
// operands with this layout, because any of them may share the output's memory. A read after the loop of pass k
// (PerRowIn) counts as a read by pass k+1, because the loop has already written its outputs.
func (p *Plan) lastRead(output int) int {
	last := 0
	for k, pass := range p.program.Passes {
		for passesLater, list := range [2][]expr.Place{pass.In, pass.PerRowIn} { // the index is 1 for PerRowIn
			for _, place := range list {
				if place.Kind == expr.AtOperand && p.metas[p.outCount+place.N].SameAddresses(p.metas[output]) {
					last = max(last, k+passesLater)
				}
			}
		}
	}
	return last
}
