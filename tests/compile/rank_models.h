/* Models whose training needs sums over the batch inside the step. */
#ifndef VTB_TEST_RANK_MODELS_H
#define VTB_TEST_RANK_MODELS_H

/* Batch norm, stochastic depth and dropout inside a block that is called twice, a noise level a
 * row, a normaliser over the batch, labels that do not count. */
static const char mixed[] =
    "use std.nn\n"
    "use std.conv\n"
    "use std.loss\n"
    "block layer(x: tokens) {\n"
    "  y = relu(batch_norm(\"bn\", conv2d(\"conv\", to_image(x), 4, 3, pad = 1)))\n"
    "  return x + survival(0.3) * dropout(y, 0.2)\n"
    "}\n"
    "model mixed() {\n"
    "  input image: image[4, 6, 6]\n"
    "  input labels: labels\n"
    "  time = random(batch)\n"
    "  x = pixels(image + 0.1 * time * random_normal(image))\n"
    "  repeat 2 as i scope \"layers.{i}\" { x = layer(x) }\n"
    "  gate = param gate: [4] ~ normal(0.5)\n"
    "  shares = mean(mean(sigmoid(x * gate), axis = \"tokens\"), axis = \"B\")\n"
    "  output logits = linear(\"head\", mean(x, axis = \"tokens\"), 5)\n"
    "  loss ce = cross_entropy(logits, labels)\n"
    "  loss balance = sum(ungroup(square(shares)))\n"
    "}\n";

/* Batch norm of tokens between a residual and what drops paths: the model of cli/train_ranks. */
static const char normed[] =
    "use std.nn\n"
    "use std.conv\n"
    "model normed(dim: int = 16, kinds: int = 4) {\n"
    "  input image: image[1, 8, 8]\n"
    "  x = patch_embed(\"embed\", image, dim, 4x4, 4x4)\n"
    "  y = batch_norm(\"bn\", depthwise(\"conv\", x, conv2d, 3, bias = false))\n"
    "  x += drop_path(gelu(y), 0.2)\n"
    "  output y = linear(\"head\", mean(dropout(x, 0.1), axis = \"tokens\"), kinds)\n"
    "}\n";

#endif
