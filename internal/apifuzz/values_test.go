package apifuzz

import (
	"reflect"

	"github.com/graphrun/graphrun/internal/contiguity"
)

// enough is the maximum number of calls of a function argument.
const enough = 10000

// zeros returns the zero results of a function.
func zeros(t reflect.Type) []reflect.Value {
	out := make([]reflect.Value, t.NumOut())
	for i := range out {
		out[i] = reflect.Zero(t.Out(i))
	}
	return out
}

// claimOf returns a random claim, or the zero claim, which is empty.
func claimOf(w *world) contiguity.Claim {
	c, _ := contiguity.ParseClaim(pick(w, []string{"", "contiguous => non_overlapping_and_dense", "~no_overlap"}))
	return c
}
