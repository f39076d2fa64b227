package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/graphrun/graphrun/batch"
)

// jsonLengthHeader is the header of the protocol's binary extension. It has the length of the JSON at the start of the
// body, in bytes.
const jsonLengthHeader = "Inference-Header-Content-Length"

// printClass classifies an image file.
func printClass(ctx context.Context, url, token, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	picture, err := batch.DecodeImage(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	class, probability, err := classify(ctx, url, token, picture)
	if err != nil {
		return err
	}
	fmt.Printf("class %d  %.4f\n", class, probability)
	return nil
}

// classify sends an image to the server. The pixels follow the JSON as bytes; the results are JSON.
func classify(ctx context.Context, url, token string, picture image.Image) (class int, probability float64, err error) {
	pixels := rgb(picture)
	size := picture.Bounds().Size()
	head := fmt.Sprintf(`{"inputs": [{"name": "image", "datatype": "UINT8", "shape": [1, %d, %d, 3], "parameters": `+
		`{"binary_data_size": %d}}]}`, size.Y, size.X, len(pixels))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v2/models/"+modelName+"/infer",
		bytes.NewReader(append([]byte(head), pixels...)))
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set(jsonLengthHeader, strconv.Itoa(len(head)))
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, 0, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(body))
	}
	var doc struct {
		Outputs []struct {
			Name string
			Data []float64
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return 0, 0, err
	}
	for _, output := range doc.Outputs {
		switch {
		case len(output.Data) != 1:
			return 0, 0, fmt.Errorf("output %q has %d elements, want 1", output.Name, len(output.Data))
		case output.Name == "class":
			class = int(output.Data[0])
		case output.Name == "probability":
			probability = output.Data[0]
		}
	}
	return class, probability, nil
}

// rgb returns the pixels of an image, row by row, three bytes each.
func rgb(picture image.Image) []byte {
	bounds := picture.Bounds()
	list := make([]byte, 0, 3*bounds.Dx()*bounds.Dy())
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			list = append(list, byte(r>>8), byte(g>>8), byte(b>>8))
		}
	}
	return list
}
