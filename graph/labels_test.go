package graph

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/tensor"
)

// TestUnknownStrings encodes strings that the labels do not have. Equal strings have equal codes, in all tensors, and
// only the tensor decodes them.
func TestUnknownStrings(t *testing.T) {
	labels := Labels{Texts: tensor.NewTexts([]string{"red", ""})}
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

	for _, x := range []*tensor.Tensor{encoded, encoded.CopyTo(encoded.Meta), tensor.Must(encoded.View(encoded.Meta))} {
		decoded, err := labels.Decode(x)
		require.NoError(t, err)
		require.Equal(t, texts, decoded)
	}
	bare := tensor.Must(tensor.FromSlice(codes, 5))
	_, err = labels.Decode(bare)
	require.ErrorContains(t, err, "element 0 is ")
	require.ErrorContains(t, err, "stands for no string of the model or of the run")
	bare.SetTexts(labels.Texts.With(other, bare))
	decoded, err := labels.Decode(bare)
	require.NoError(t, err)
	require.Equal(t, texts, decoded)
	_, err = Labels{}.Encode(texts, 5)
	require.ErrorContains(t, err, "not strings")
	_, err = Labels{}.Decode(encoded)
	require.ErrorContains(t, err, "not strings")
}
