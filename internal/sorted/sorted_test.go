package sorted

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKeys(t *testing.T) {
	assert.Equal(t, []string{"", "a", "b", "c"}, Keys(map[string]int{"c": 1, "a": 3, "": 0, "b": 2}))
	assert.Equal(t, []string{}, Keys[int](nil))
}

func TestStrings(t *testing.T) {
	list := []string{"x", "b", "a", "b"}
	Strings(list)
	assert.Equal(t, []string{"a", "b", "b", "x"}, list)
	Strings(nil)
}
