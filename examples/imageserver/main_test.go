package main

import (
	"image"
	"image/color"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/tensor"
)

// picture returns an image of any size.
func picture(width, height int) image.Image {
	p := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			p.Set(x, y, color.RGBA{byte(7 * x), byte(5 * y), byte(x * y), 255})
		}
	}
	return p
}

// TestClient classifies images of two sizes over HTTP, and compares the results with those of direct runs.
func TestClient(t *testing.T) {
	models, err := openModel(t.Context())
	require.NoError(t, err)
	server := httptest.NewServer(newHandler(models, "secret"))
	defer server.Close()
	g, err := classifier()
	require.NoError(t, err)
	p, err := graphrun.Compile(t.Context(), g, graphrun.Options{})
	require.NoError(t, err)
	for _, size := range []image.Point{{40, 50}, {64, 33}} {
		image := picture(size.X, size.Y)
		class, probability, err := classify(t.Context(), server.URL, "secret", image)
		require.NoError(t, err)
		out, err := p.Run(t.Context(), map[string]*tensor.Tensor{
			"image": tensor.Must(tensor.FromSlice(rgb(image), 1, size.Y, size.X, 3))})
		require.NoError(t, err)
		assert.Equal(t, out["class"].At(0, 0).Float(), float64(class))
		assert.InDelta(t, out["probability"].At(0, 0).Float(), probability, 1e-6)
		assert.Greater(t, probability, 1.0/classes)
	}
	_, _, err = classify(t.Context(), server.URL, "wrong", picture(4, 4))
	assert.ErrorContains(t, err, "a valid bearer token is required")
	response, err := http.Get(server.URL + "/")
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusOK, response.StatusCode)
}
