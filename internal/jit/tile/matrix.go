package tile

// This file emits products of byte matrices ([Spec.Int8Matrix]). In the k-loop, an accumulator register holds a 2x2
// block of sums: two lanes of row i and the same lanes of row i+1, for an even i. For each vector, the register of row
// i has lanes 0 and 1 of both rows, and the register of row i+1 lanes 2 and 3. If the number of rows is odd, the
// registers of one more row are reserved, and its sums are not used. Outside the k-loop, each register has the four
// lanes of one row, as in other tiles.

// int8MatrixTerm emits the products of one iteration of the k-loop (a term). inOffset is the offset of the term in the
// broadcast operand.
func (g *gen) int8MatrixTerm(inOffset int) {
	for i := 0; i < g.spec.Rows; i += 2 {
		rowPair := g.nextElementRegister() // the eight bytes of row i, then of row i+1
		if i+1 < g.spec.Rows {
			g.neon.LoadPair(g.rowAddr(i, inOffset), g.rowAddr(i+1, inOffset), rowPair)
		} else { // row i+1 is missing
			g.LoadElements(g.rowAddr(i, inOffset), 2, rowPair)
		}
		for vector := range g.spec.Vectors {
			for lanePair := range 2 {
				g.neon.MatrixProduct(rowPair, g.vectorReg(2*vector+lanePair), g.sumReg(i+lanePair, vector), g.spec.SignedIn)
			}
		}
	}
}

// convertSumLayout converts the accumulators from one row per register to 2x2 sums per register, or back.
func (g *gen) convertSumLayout() {
	for i := 0; i < g.spec.Rows; i += 2 {
		for vector := range g.spec.Vectors {
			g.neon.ExchangeHalves(g.sumReg(i, vector), g.sumReg(i+1, vector))
		}
	}
}
