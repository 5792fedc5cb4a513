//! Classifies image files with a built model: classify MODEL.so IMAGE...
//!
//! As many images at a time as the model was built for, three classes an image with their probabilities.
mod vertebra;

use std::process::ExitCode;

/// The classes with the highest scores, and their probabilities.
fn best(scores: &[f32], n: usize) -> Vec<(usize, f32)> {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|x| (x - highest).exp()).sum();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let probability = |&class: &usize| (class, (scores[class] - highest).exp() / sum);
    order.iter().take(n).map(probability).collect()
}

fn classify(model: &str, images: &[String]) -> vertebra::Result<()> {
    let mut session = vertebra::Model::open(model)?.session()?; // which keeps the model
    for some in images.chunks(session.batch()) {
        for (row, image) in some.iter().enumerate() {
            session.load_image(row, image)?;
        }
        for (image, scores) in some.iter().zip(session.run(some.len())?) {
            println!("{image}");
            for (class, p) in best(scores, 3) {
                println!("  {:5.1} %  class {class}", 100.0 * p);
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.len() < 2 {
        eprintln!("usage: classify MODEL.so IMAGE...");
        return ExitCode::from(2);
    }
    match classify(&words[0], &words[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("classify: {error}");
            ExitCode::from(error.status as u8)
        }
    }
}
