package graph

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/tensor"
)

// TestUnknownStrings encodes strings that the labels do not have. Equal strings have equal codes, in all tensors, and
// only labels that know the strings of the run decode them.
func TestUnknownStrings(t *testing.T) {
	labels := Labels{Strings: []string{"red", ""}}
	texts := []string{"blue", "red", "", "blue", "green"}
	encoded, err := labels.Encode(texts, 5)
	require.NoError(t, err)
	other, err := labels.Encode([]string{"green", "blue"}, 2)
	require.NoError(t, err)
	codes, others := tensor.Data[int64](encoded), tensor.Data[int64](other)
	require.Equal(t, []int64{0, 1}, codes[1:3])
	require.Equal(t, []int64{codes[4], codes[0]}, others)
	require.Equal(t, codes[0], codes[3])
	require.NotEqual(t, codes[0], codes[4])
	require.Negative(t, codes[0])

	decoded, err := labels.With(texts).Decode(encoded)
	require.NoError(t, err)
	require.Equal(t, texts, decoded)
	_, err = labels.Decode(encoded)
	require.ErrorContains(t, err, "stands for no string of the model")
	_, err = labels.With([]string{"blue"}).Decode(encoded)
	require.ErrorContains(t, err, "element 4 is ")
	require.Equal(t, Labels{}, Labels{}.With(texts))
}
