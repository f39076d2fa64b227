package tile

import (
	"fmt"
	"math"
)

// maxDistance bounds a distance in bytes. The sum of two distances and of an offset within the tile then fits into a
// displacement of 32 bits.
const maxDistance = 1<<30 - 1<<16

// checkDistances rejects distances, and sums of distances, that do not fit into 32-bit displacements and immediates. In
// and Vec are the two operands of the tile's products, and a run is a sequence of terms at constant distances in both:
// see the package comment.
func (s *Spec) checkDistances() error {
	for _, group := range [...]struct {
		name string
		list []int
	}{{"rows of the broadcast operand", s.In}, {"rows of the result", s.Out},
		{"tiles", []int{constantOr0(s.Tiles.InStep), constantOr0(s.Tiles.VecStep), constantOr0(s.Tiles.OutStep)}},
		{"prefetched lines", []int{s.PrefetchDistance, s.PrefetchedLines * lineBytes}},
		{"packed terms", []int{s.unroll() * s.PackedStep}}} {
		for _, distance := range group.list {
			if !fitsDistance(distance) {
				return fmt.Errorf("tile: %s: the distance is %d bytes: want %d to %d", group.name, distance,
					-maxDistance, maxDistance)
			}
		}
	}
	for i, loop := range s.Loops {
		if !fitsDistance(loop.InStep) || !fitsDistance(loop.VecStep) || loop.Trips > math.MaxInt32 ||
			loop.Block > math.MaxInt32 {
			return fmt.Errorf("tile: loop %d is %+v: want InStep and VecStep from %d to %d, and Trips and Block up to %d", i,
				loop, -maxDistance, maxDistance, math.MaxInt32)
		}
	}
	inEnd, vecEnd := 0, 0 // the ends of the previous run's terms
	for i, run := range s.Runs {
		terms := run.Terms
		if terms == Dynamic { // the addresses advance after each iteration, so displacements span one iteration
			terms = s.unroll()
		}
		fits := func(first, step, previousEnd int) bool {
			return fitsDistance(first) && endFits(step, terms) && fitsInt32(first-previousEnd)
		}
		if !fits(run.In, run.InStep, inEnd) || !fits(run.Vec, run.VecStep, vecEnd) {
			return fmt.Errorf("tile: run %d is %+v: want In, Vec, the steps and step*Terms from %d to %d, up to %d "+
				"Terms, and 32-bit distances from the end of the run before it", i, run, -maxDistance, maxDistance,
				math.MaxInt32)
		}
		inEnd, vecEnd = run.In+terms*run.InStep, run.Vec+terms*run.VecStep
	}
	return nil
}

// fitsDistance reports whether a constant distance is within maxDistance.
func fitsDistance(distance int) bool {
	return distance <= maxDistance && distance >= -maxDistance
}

// constantOr0 returns a constant distance, or 0 for a dynamic one.
func constantOr0(distance int) int {
	if distance == Dynamic {
		return 0
	}
	return distance
}

func fitsInt32(distance int) bool { return distance == int(int32(distance)) }

// endFits reports whether the number of terms fits an immediate, and step and step*terms are within maxDistance. A
// Dynamic step counts as 0.
func endFits(step, terms int) bool {
	return terms <= math.MaxInt32 && fitsDistance(constantOr0(step)) && fitsDistance(constantOr0(step)*terms)
}

// unroll returns the number of terms of an iteration of the k-loop, the loop over the terms of the sums.
func (s *Spec) unroll() int {
	if s.Unroll > 0 {
		return s.Unroll
	}
	return DefaultUnroll
}
