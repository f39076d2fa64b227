package expr

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRecoverError: mistakes in a text become errors, and faults of the package continue as panics.
func TestRecoverError(t *testing.T) {
	parse := func(panicked any) (err error) {
		defer recoverError(&err)
		if panicked != nil {
			panic(panicked)
		}
		return nil
	}
	mistake := &Error{Line: 1, Column: 2, Msg: "expected a name"}
	assert.Same(t, mistake, parse(mistake))
	assert.NoError(t, parse(nil))
	assert.PanicsWithValue(t, "index", func() { _ = parse("index") })
}
