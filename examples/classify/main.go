// Command classify runs an exported network, such as one of torchvision, and prints the likeliest classes. The images
// are in a .npz file, under the name of the model's input.
//
//	go run ./examples/classify model.onnx inputs.npz
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/npz"
	"github.com/graphrun/graphrun/op"
)

func main() {
	g, err := graphrun.Load(context.Background(), os.Args[1])
	check(err)
	scores := g.Outputs[0].Value // logits, [batch, classes]
	probabilities, classes := op.Topk(op.Softmax(scores, -1), 5)
	g.Output("probability", probabilities)
	g.Output("class", classes)
	check(g.Err())
	images, err := npz.ReadFile(os.Args[2])
	check(err)
	out, err := graphrun.Run(context.Background(), g, images)
	check(err)
	for i := range 5 {
		fmt.Printf("class %4v  %.4f\n", out["class"].At(0, i), out["probability"].At(0, i).Float())
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
